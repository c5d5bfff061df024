//! When something was shown, by the browser's own clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use super::{FRAMES, beforehand, number, promised};
use crate::browser::Page;

/// Milliseconds since 1970, as the browser has them, which runs on the same machine.
pub fn now_ms() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "it is compared with the clock of another process")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}

/// A browser that has just been started goes on starting while it shows its first page: it is given one of no size, and a moment.
pub async fn warm(page: &Page) -> anyhow::Result<()> {
    page.go("data:text/html,<p>begun</p>").await;
    first_view(page).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

/// From the navigation to the first content that was painted, in seconds.
pub async fn first_view(page: &Page) -> anyhow::Result<f64> {
    let painted = "performance.getEntriesByName('first-contentful-paint')";
    page.holds(&format!("{painted}.length > 0")).await;
    number(page, &format!("{painted}[0].startTime / 1e3")).await
}

/// Notes in pages from now on when points were drawn: once reading a pixel back shows that they are.
pub async fn note_draws(page: &Page) -> anyhow::Result<()> {
    let script = "globalThis.drawn = []; const draw = WebGL2RenderingContext.prototype.drawArrays; \
        WebGL2RenderingContext.prototype.drawArrays = function (kind, first, count) { \
            draw.call(this, kind, first, count); \
            if (drawn.length > 0 && drawn.at(-1).count >= count) return; \
            this.readPixels(0, 0, 1, 1, this.RGBA, this.UNSIGNED_BYTE, new Uint8Array(4)); \
            drawn.push({ count, at: performance.now() }); };";
    beforehand(page, script).await
}

/// From the navigation to the first picture with so many points, in seconds.
pub async fn drawn(page: &Page, count: usize) -> anyhow::Result<f64> {
    page.holds(&format!("drawn.some((noted) => noted.count === {count})")).await;
    number(page, &format!("drawn.find((noted) => noted.count === {count}).at / 1e3")).await
}

/// How long frames take while something is moved before each, in milliseconds.
pub async fn frames(page: &Page, mover: &str) -> anyhow::Result<Vec<f64>> {
    let script = format!(
        "(async (move) => {{ const next = () => new Promise(requestAnimationFrame), times = []; \
            for (let last = await next(), i = 0; i < {FRAMES}; i++) {{ \
                move(); const now = await next(); times.push(now - last); last = now; }} \
            return times; }})({mover})"
    );
    let times = promised(page, &script).await?;
    let times = times.as_array().context("no frames")?;
    times.iter().map(|time| time.as_f64().context("a frame took no number")).collect()
}

/// Notes when a map says a text, and that has been painted.
pub async fn note_when_told(page: &Page, text: &str) -> anyhow::Result<()> {
    let script = format!(
        "(() => {{ globalThis.toldAt = 0; const told = document.querySelector('.map-told'); \
            new MutationObserver(() => {{ if (told.textContent !== '{text}' || toldAt) return; \
                toldAt = 1; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => (toldAt = Date.now())))); \
            }}).observe(told, {{ childList: true, characterData: true, subtree: true }}); return 0; }})()"
    );
    number(page, &script).await.map(drop)
}

/// When that was, in milliseconds since 1970.
pub async fn told_ms(page: &Page) -> anyhow::Result<f64> {
    page.holds("toldAt > 1").await;
    number(page, "toldAt").await
}
