//! The keyboard.

use serde_json::json;

use super::Page;

/// Keys that are no characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Tab,
    BackTab,
    Enter,
    Escape,
    Space,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
}

impl Key {
    /// Its name, its code on Windows, the text that it types, and whether Shift is held.
    const fn parts(self) -> (&'static str, u32, &'static str, bool) {
        match self {
            Self::Tab => ("Tab", 9, "", false),
            Self::BackTab => ("Tab", 9, "", true),
            Self::Enter => ("Enter", 13, "\r", false),
            Self::Escape => ("Escape", 27, "", false),
            Self::Space => (" ", 32, " ", false),
            Self::Up => ("ArrowUp", 38, "", false),
            Self::Down => ("ArrowDown", 40, "", false),
            Self::Left => ("ArrowLeft", 37, "", false),
            Self::Right => ("ArrowRight", 39, "", false),
            Self::Home => ("Home", 36, "", false),
            Self::End => ("End", 35, "", false),
        }
    }
}

impl Page {
    /// Presses a key and lets it go.
    pub async fn press(&self, key: Key) {
        let (name, code, text, is_shifted) = key.parts();
        self.stroke(name, code, text, if is_shifted { 8 } else { 0 }).await;
    }

    /// Marks all of the text in the field that has the focus, as Ctrl+A does.
    pub async fn select_all(&self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let commands: &[&str] = if kind == "keyUp" { &[] } else { &["selectAll"] };
            let event = json!({"type": kind, "key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": 2,
                "commands": commands});
            self.cdp("Input.dispatchKeyEvent", event).await.unwrap_or_else(|e| panic!("Ctrl+A: {e}"));
        }
    }

    /// Puts a text in the place of what is marked in the field that has the focus, as who pastes it does.
    pub async fn paste(&self, text: &str) {
        self.cdp("Input.insertText", json!({"text": text})).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    }

    /// Types a text, key by key, into whatever has the focus.
    pub async fn type_text(&self, text: &str) {
        for character in text.chars() {
            let one = character.to_string();
            let code =
                if character.is_ascii_alphanumeric() { u32::from(character.to_ascii_uppercase()) } else { 0 };
            self.stroke(&one, code, &one, 0).await;
        }
    }

    async fn stroke(&self, name: &str, code: u32, text: &str, modifiers: u32) {
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [kind, "keyUp"] {
            let mut event = json!({"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers});
            if kind == "keyDown" {
                event["text"] = text.into();
            }
            self.cdp("Input.dispatchKeyEvent", event).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
