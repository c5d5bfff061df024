//! Contrast, computed: of the style's own colours, and of every text as it is drawn.

use serde_json::Value;

use crate::browser::Page;

/// WCAG 2.2, 1.4.3: text; and text from 24 pixels on, or from 18.66 if bold.
const TEXT: f64 = 4.5;
const LARGE_TEXT: f64 = 3.0;

/// Light of an sRGB colour relative to white, by WCAG 2.2.
fn luminance([red, green, blue]: [f64; 3]) -> f64 {
    let linear = |part: f64| {
        let part = part / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// The ratio of two colours: from 1 to 21.
pub fn ratio(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// `#rgb` or `#rrggbb`.
pub fn colour(text: &str) -> Option<[f64; 3]> {
    let digits = text.strip_prefix('#')?;
    let part = |from: usize, length: usize| {
        let value = u8::from_str_radix(digits.get(from..from + length)?, 16).ok()?;
        Some(f64::from(if length == 1 { value * 17 } else { value }))
    };
    match digits.len() {
        3 => Some([part(0, 1)?, part(1, 1)?, part(2, 1)?]),
        6 => Some([part(0, 2)?, part(2, 2)?, part(4, 2)?]),
        _ => None,
    }
}

/// All texts that are shown: their colours and backgrounds as drawn, with what lies below mixed in by opacity, their size
/// and weight. Backgrounds that are pictures are said to be unknown.
const TEXTS: &str = r"
(() => {
  const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const read = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return null;
      layers.push(read(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    const canvas = read(getComputedStyle(document.documentElement).colorScheme.includes('dark')
      && matchMedia('(prefers-color-scheme: dark)').matches ? '#121212' : '#ffffff');
    return layers.reverse().reduce((below, top) => over(top, below), canvas);
  };
  const out = [];
  const walk = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const text = walk.currentNode.data.trim();
    if (!text || ['SCRIPT', 'STYLE', 'TEMPLATE', 'NOSCRIPT'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility({ visibilityProperty: true }) || box.width <= 1 || box.height <= 1) continue;
    if (element.closest('button:disabled, [aria-disabled=true]')) continue;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const below = ground(element);
    const ink = read(style.color);
    ink[3] *= opacity;
    out.push({ text: text.slice(0, 40), on: element.tagName + '.' + element.className, ground: below,
      ink: below && over(ink, below), size: parseFloat(style.fontSize), weight: Number(style.fontWeight) });
  }
  return out;
})()";

/// What is too faint to be read, one a line.
pub async fn faint(page: &Page) -> Vec<String> {
    let texts = page.evaluate_apart(&[TEXTS]).await.unwrap_or_else(|e| panic!("{e}"));
    let texts = texts.as_array().unwrap();
    assert!(!texts.is_empty(), "there is no text");
    texts.iter().filter_map(fault_of).collect()
}

fn fault_of(text: &Value) -> Option<String> {
    let part = |name: &str| {
        let parts = text[name].as_array()?;
        Some([parts.first()?.as_f64()?, parts.get(1)?.as_f64()?, parts.get(2)?.as_f64()?])
    };
    let place = format!("{} in {}", text["text"], text["on"]);
    let (Some(ink), Some(ground)) = (part("ink"), part("ground")) else {
        return Some(format!("{place}: it lies on a picture"));
    };
    let (size, weight) = (text["size"].as_f64()?, text["weight"].as_f64()?);
    let is_large = size >= 24.0 || (size >= 18.66 && weight >= 700.0);
    let (least, is) = (if is_large { LARGE_TEXT } else { TEXT }, ratio(ink, ground));
    (is < least).then(|| format!("{place}: contrast {is:.2}, least {least}: {ink:.0?} on {ground:.0?}"))
}

#[test]
fn contrast_is_that_of_the_standard() {
    let of = |one: &str, other: &str| ratio(colour(one).unwrap(), colour(other).unwrap());
    assert!((of("#000", "#fff") - 21.0).abs() < 1e-9);
    assert!((of("#777777", "#ffffff") - 4.478).abs() < 1e-3, "{}", of("#777777", "#ffffff"));
    assert!((of("#336699", "#336699") - 1.0).abs() < 1e-9);
    assert_eq!(colour("#12345"), None);
    assert_eq!(colour("red"), None);
}
