//! What a viewer may have set, and what they may lack.

use serde_json::{Value, json};

use super::Page;

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Light,
    Dark,
    /// Light, 320 pixels wide: 1280 at 400 %.
    Phone,
    Forced,
    /// Light, all text twice as large.
    LargeText,
}

impl Mode {
    pub const ALL: [Self; 5] = [Self::Light, Self::Dark, Self::Phone, Self::Forced, Self::LargeText];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
            Self::Phone => "phone",
            Self::Forced => "forced",
            Self::LargeText => "large-text",
        }
    }
}

/// Pixels of text of the usual size.
const FONT: u32 = 16;

impl Page {
    async fn set(&self, command: &str, parameters: Value) {
        self.cdp(command, parameters).await.unwrap_or_else(|e| panic!("{command}: {e}"));
    }

    /// Looks at this page and all that follow in a mode.
    pub async fn look(&self, mode: Mode) {
        let (scheme, forced) = match mode {
            Mode::Dark => ("dark", "none"),
            Mode::Forced => ("dark", "active"),
            Mode::Light | Mode::Phone | Mode::LargeText => ("light", "none"),
        };
        self.media(&[("prefers-color-scheme", scheme), ("forced-colors", forced)]).await;
        let (width, height) = if mode == Mode::Phone { (320, 720) } else { (1280, 800) };
        self.size(width, height).await;
        let size = if mode == Mode::LargeText { 2 * FONT } else { FONT };
        self.set("Page.setFontSizes", json!({"fontSizes": {"standard": size, "fixed": size * 13 / 16}}))
            .await;
    }

    /// Media features, beside which all are as usual.
    pub async fn media(&self, features: &[(&str, &str)]) {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.set("Emulation.setEmulatedMedia", json!({"media": "", "features": features})).await;
    }

    /// As on paper.
    pub async fn on_paper(&self) {
        self.set("Emulation.setEmulatedMedia", json!({"media": "print", "features": []})).await;
    }

    /// The size of the window in CSS pixels.
    pub async fn size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.set("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// From the next document on.
    pub async fn scripts(&self, are_run: bool) {
        self.set("Emulation.setScriptExecutionDisabled", json!({"value": !are_run})).await;
    }

    pub async fn offline(&self, is: bool) {
        self.set("Network.enable", json!({})).await;
        let line = json!({"offline": is, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.set("Network.emulateNetworkConditions", line).await;
    }

    /// The viewer's zone, by its name of the tz database.
    pub async fn zone(&self, name: &str) {
        self.set("Emulation.setTimezoneOverride", json!({"timezoneId": name})).await;
    }

    /// Clocks of all documents from the next one on go wrong by so many hours.
    pub async fn clock_off(&self, hours: i32) {
        let source = format!(
            "{{ const off = {hours} * 3600000; const Real = Date; \
             globalThis.Date = class extends Real {{ \
                constructor(...a) {{ if (a.length) super(...a); else super(Real.now() + off); }} \
                static now() {{ return Real.now() + off; }} }}; }}"
        );
        self.set("Page.addScriptToEvaluateOnNewDocument", json!({"source": source})).await;
    }
}
