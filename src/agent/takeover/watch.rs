//! What is looked after while anything is taken over, or may be.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Instant, timeout};

use super::{
    DRIFTS, Drifted, FLOWS_EVERY, Inner, LOOK_EVERY, RULES_AGAIN, SURVEY_EVERY, is_so, lock,
    nft::{self, Found, Sent, written},
    redirects,
    taken::{Phase, Taken},
};

impl Inner {
    /// Looks again and again at what is in force, until nothing is and nothing may be.
    pub(super) async fn watch(self: Arc<Self>) {
        let (mut look_at, mut survey_at) = (Instant::now(), Instant::now());
        while self.is_in_use() {
            let now = Instant::now();
            if self.settings.sockets && now >= survey_at {
                survey_at = now + SURVEY_EVERY;
                self.survey().await;
            }
            if let Ok(_turn) = self.turn.try_lock() {
                if now >= look_at {
                    look_at = now + LOOK_EVERY;
                    self.look_after().await;
                } else {
                    self.finish_or_say().await;
                }
            }
            let has_flows = |taken: &Taken| taken.is_udp() && taken.phase == Phase::Leaving;
            let rest = if lock(&self.taken).iter().any(has_flows) { FLOWS_EVERY } else { LOOK_EVERY };
            let _ = timeout(rest, self.leaves.notified()).await;
        }
    }

    /// Looks at which ports calls could be taken over by a socket.
    async fn survey(&self) {
        let Ok(all) = self.apart(|ground| ground.beside(None)).await else { return };
        let can_all =
            all.into_iter().filter(|(_, there)| there.iter().all(|(_, can_be_joined)| *can_be_joined));
        *lock(&self.joinable) = can_all.map(|(port, _)| port).collect();
    }

    /// Asks who else takes calls that come by a socket, where it is time to.
    async fn ask_others(&self) {
        let ports = self.taken_by_socket();
        lock(&self.beside).keep(&ports);
        for port in ports {
            let is_due = lock(&self.beside).is_due(port, Instant::now());
            if !is_due {
                continue;
            }
            // Who can't be asked is asked again.
            let Ok(others) = self.others(port).await else { continue };
            let is_news = lock(&self.beside).note(port, &others, Instant::now());
            if !is_news {
                continue;
            }
            if lock(&self.beside).is_shared(port) {
                tracing::warn!("another program takes a part of the calls to port {port}, past the proxy");
            } else {
                tracing::info!("nobody else takes calls to port {port} any more");
            }
            self.drifted.notify_one();
        }
    }

    /// Whether it is to be looked at rules: there are some, or it isn't known whether there can be any.
    fn looks_at_rules(&self) -> bool {
        if self.has_rules() || self.differs.load(Ordering::SeqCst) {
            return true;
        }
        self.settings.nftables
            && match &*lock(&self.usable) {
                None => true,
                Some((_, Ok(()))) => false,
                Some((at, Err(_))) => at.elapsed() >= RULES_AGAIN,
            }
    }

    async fn look_after(&self) {
        let is_away = lock(&self.away_since).is_some();
        if !is_away {
            self.ask_others().await;
        }
        if !self.looks_at_rules() {
            return self.finish_or_say().await;
        }
        let found = self.look().await;
        let is_away = lock(&self.away_since).is_some();
        let Ok(found) = found else { return };
        if is_away {
            return;
        }
        let all = lock(&self.taken).clone();
        let wanted = redirects(&all);
        if !is_so(&found, &all, &wanted) {
            let sent = nft::sent(&wanted);
            // What is being given back may be there still, and nobody has changed it.
            let is_whole = all.iter().all(|taken| taken.phase != Phase::GivingBack);
            let is_drift = is_whole && (found.is_there || found.sent != sent);
            let is_known = self.differs.swap(true, Ordering::SeqCst);
            if is_drift && !is_known && self.has_put.load(Ordering::SeqCst) {
                self.note_drift(&sent, &found);
            }
            // More callers than come now are sent to the proxy with its table alone.
            if sent.iter().any(|(socket, to)| found.sent.get(socket) != Some(to)) {
                self.drifted.notify_one();
                return;
            }
            if let Err(trouble) = self.put(&Ok(found), &all, &wanted).await {
                tracing::warn!("rules for others' ports are not as they should be: {}", trouble.text);
                return;
            }
        }
        self.differs.store(false, Ordering::SeqCst);
        self.finish_or_say().await;
    }

    /// Forgets what was given back and has no callers any more, or says why not.
    pub(super) async fn finish_or_say(&self) {
        if let Err(trouble) = self.finish().await {
            tracing::warn!("what is given back of others' ports: {}; tried again", trouble.text);
        }
    }

    fn note_drift(&self, wanted: &Sent, found: &Found) {
        let seen = match found {
            Found { is_there: true, sent, .. } if sent == wanted => "the same by other rules".to_owned(),
            Found { sent, .. } => written(sent),
        };
        let wanted = written(wanted);
        tracing::warn!("calls to others' ports are taken over as {seen}, and put right: {wanted}");
        let mut drifts = lock(&self.drifts);
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        let number = drifts.back().map_or(now, |last| now.max(last.number + 1));
        drifts.push_back(Drifted { at: Instant::now(), number, wanted, seen });
        if drifts.len() > DRIFTS {
            drifts.pop_front();
        }
    }
}
