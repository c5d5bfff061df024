//! Who carries out which effect of the outbox.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    effect::{Entry, PendingEffect, ToParent, Webhook},
    json_columns,
    tokens::TokenStatus,
    view::View,
};
use domain::release::settings::Proven;
use store::rows::{OutboxRow, PointerRow, SettingRow};

/// Who carries out which effect.
#[derive(Debug)]
pub(super) struct Effects {
    pub webhooks: mpsc::UnboundedSender<PendingEffect<Webhook>>,
    pub to_parent: mpsc::UnboundedSender<PendingEffect<ToParent>>,
    pub view: Arc<View>,
    /// Children that prove by a token who they are.
    pub proven: Proven,
}

impl Effects {
    /// Hands an entry of the outbox over; one that nobody takes, or that can't be read, is left in the store for the next life.
    /// `served_ms`: the serving time, for one that doesn't say when it came up.
    pub fn send(&self, row: &OutboxRow, served_ms: u64) {
        let served_ms = row.served_ms.unwrap_or(served_ms);
        // Whoever carries effects out may have ended before.
        match Entry::read(row) {
            Ok(Entry::Webhook(what)) => {
                drop(self.webhooks.send(PendingEffect { row: row.id, served_ms, what }));
            }
            Ok(Entry::Parent(what)) => {
                drop(self.to_parent.send(PendingEffect { row: row.id, served_ms, what }));
            }
            Err(error) => self.view.stats.unreadable.note_effect(row.id, &error),
        }
    }

    /// Shows where a strategy went; a pointer that can't be read is left in the store.
    pub fn point(&self, row: &PointerRow) {
        match json_columns::pointer(row) {
            Ok(pointer) => self.view.pointers.note(row.pointer_key, pointer),
            Err(error) => self.view.stats.unreadable.note(&error),
        }
    }

    /// Takes in a tenant, if the setting is one. Lets the token of a child hold, or no longer, if the setting is one; one that can't be read is left in the store.
    pub fn token(&self, row: &SettingRow) {
        if let Err(error) = self.view.tenants.note(row) {
            self.view.stats.unreadable.note(&error);
        }
        match self.view.tokens.note(row) {
            Ok(None) => {}
            Ok(Some((child, TokenStatus::Holds(_)))) => self.proven.add(child),
            Ok(Some((child, TokenStatus::Revoked | TokenStatus::Unreadable))) => {
                self.proven.remove(child);
                // A call of it that waits is refused now.
                if let Some(key) = self.view.children.with(child, |entry| entry.key) {
                    self.view.waiters.wake(key);
                }
            }
            Err(error) => self.view.stats.unreadable.note(&error),
        }
    }
}
