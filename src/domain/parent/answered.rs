//! What follows from what the parent answered.

use super::{
    About, BELIEVED_AFTER, FORGOTTEN_AFTER, LOOK_AGAIN_MS, Link, MAX_DEPTH, MAX_REMEMBERED, PauseState,
    QUESTIONS_EVERY_MS, Subject, Unheard,
    act::{Act, Answer, CallId, Notice, PollResponse, Row, Trouble},
};

/// Stages that one answer may skip: no strategy has more.
const MAX_SKIPPED: usize = 64;

impl Link {
    /// A call came to an end. The facts must be no older than that.
    pub fn note_answer(&mut self, call: CallId, answer: Result<Answer, Trouble>, now: u64) {
        // One that was given up may still come.
        let Some(about) = self.calls.remove(&call) else { return };
        match about {
            About::Poll { with_id, waits } => self.poll_answered(call, with_id, waits, answer, now),
            About::Take { row } => self.take_answered(call, row, answer, now),
            About::Interim { offer } => self.interim_answered(call, &offer, now),
            About::Result { row } => self.result_answered(call, row, answer, now),
            About::Ready { offer, subject, name } => {
                self.ready_answered(call, (offer, subject, name), answer, now);
            }
            About::Ask { offer, subject, name, waits } => {
                self.ask_answered(call, (offer, subject, name, waits), answer, now);
            }
        }
    }

    fn poll_answered(
        &mut self,
        call: CallId,
        with_id: bool,
        waits: bool,
        answer: Result<Answer, Trouble>,
        now: u64,
    ) {
        let began = self.polls.began();
        self.polls.end(call);
        let polled = match answer {
            Ok(Answer::Polled(polled)) => polled,
            Ok(_) => {
                return self.poll_failed(with_id, &Trouble::Passing("another call's answer".into()), now);
            }
            Err(trouble) => return self.poll_failed(with_id, &trouble, now),
        };
        let was_troubled = self.polls.is_troubled();
        // Whoever asks may have more to ask, and everything else to say.
        let interval = if polled.questions.is_empty() { self.settings.poll_ms } else { QUESTIONS_EVERY_MS };
        let due = again(interval, waits, began, now);
        self.polls.succeed(due, &mut self.acts);
        self.not_found = 0;
        self.features.clone_from(&polled.features);
        if was_troubled {
            // It is back: what failed meanwhile needs not wait any longer.
            (self.offers.due, self.results.due) = (now, now);
            for ask in self.asks.values_mut() {
                ask.lane.due = now;
            }
        }
        if self.id() != Some(polled.id.as_str()) {
            self.is_storing_id = true;
            self.acts.push_back(Act::Say(Notice::Registered { id: polled.id.clone() }));
            self.acts.push_back(Act::Enroll(polled.id.clone()));
        }
        self.look_at_parent(&polled);
        if self.bent.is_none() {
            self.paused_by_parent = Some(polled.hold.iter().cloned().collect());
            self.hold();
            if !polled.questions.is_empty() {
                self.acts.push_back(Act::Answer(polled.questions));
            }
            self.note(polled.offer, now);
        }
    }

    fn poll_failed(&mut self, with_id: bool, trouble: &Trouble, now: u64) {
        match trouble {
            Trouble::Refused { status: 404, .. } => {
                self.not_found = self.not_found.saturating_add(1);
                if with_id && self.not_found == FORGOTTEN_AFTER {
                    let id = self.id().unwrap_or_default().to_owned();
                    self.acts.push_back(Act::Say(Notice::Forgotten { id }));
                }
            }
            _ => self.not_found = 0,
        }
        self.polls.fail(trouble, now, self.settings.poll_ms, &mut self.dice, &mut self.acts);
    }

    /// Who is above, and whether this manager is among them.
    fn look_at_parent(&mut self, polled: &PollResponse) {
        let bent = if polled.rm_ids.contains(&self.settings.own_id) {
            Some(Notice::Cycle)
        } else if polled.rm_ids.len() >= MAX_DEPTH {
            Some(Notice::TooDeep { above: polled.rm_ids.len() })
        } else {
            None
        };
        if self.bent != bent {
            let said = bent.clone().unwrap_or(Notice::Straight);
            self.acts.push_back(Act::Say(said));
        }
        self.bent = bent;
        // Ids go round and round in a cycle; they are of no use to anybody below.
        let above = if self.bent.is_some() {
            polled.rm_ids.iter().take(1).cloned().collect()
        } else {
            polled.rm_ids.clone()
        };
        if self.above != above {
            self.above.clone_from(&above);
            self.acts.push_back(Act::Lineage(above));
        }
    }

    /// What is paused above pauses here, beside what somebody here has paused.
    pub(super) fn hold(&mut self) {
        let Some(paused_by_parent) = &self.paused_by_parent else { return };
        for (offer, of) in &self.facts.0 {
            let hold = paused_by_parent.contains(offer);
            if of.pause != PauseState::Over && hold != (of.pause == PauseState::Held) {
                self.acts.push_back(Act::Hold { release: of.release.clone(), hold });
            }
        }
    }

    /// Notes an offer, unless it is a release here or about to be one.
    fn note(&mut self, offer: Option<String>, now: u64) {
        let Some(offer) = offer else { return };
        let is_known = self.facts.0.contains_key(&offer)
            || self.storing_offer.as_ref() == Some(&offer)
            || self.taking.iter().any(|taking| taking.offer == offer)
            || self.owes_for(&offer)
            || self.remembered.get(&offer).is_some_and(|until| *until > now);
        if !is_known {
            self.storing_offer = Some(offer.clone());
            self.acts.push_back(Act::Note { offer });
        }
    }

    fn take_answered(&mut self, call: CallId, row: Row, answer: Result<Answer, Trouble>, now: u64) {
        self.offers.end(call);
        match answer {
            Ok(_) => {
                self.offers.succeed(now, &mut self.acts);
                // Nothing waits there now: the next poll can wait at the parent, which asks its questions with the answer.
                if self.polls.is_free() && !self.polls.is_troubled() && !self.features.is_empty() {
                    self.polls.due = self.polls.due.min(now + QUESTIONS_EVERY_MS);
                }
                let Some(place) = self.taking.iter().position(|taking| taking.row == row) else { return };
                let taken = self.taking.remove(place);
                self.acts.push_back(Act::Done(vec![row]));
                if self.remembered.len() >= MAX_REMEMBERED {
                    self.remembered.retain(|_, until| *until > now);
                    // Whoever shows so many offers again in a minute is not worth more memory.
                    self.remembered.pop_first();
                }
                self.remembered.extend(taken.map(|taken| (taken.offer, now + LOOK_AGAIN_MS)));
            }
            Err(trouble) => {
                self.offers.fail(&trouble, now, self.settings.poll_ms, &mut self.dice, &mut self.acts);
                if let Some(taking) = self.taking.iter_mut().find(|taking| taking.row == row) {
                    taking.attempts = taking.attempts.saturating_add(1);
                }
                // Another one may go better.
                self.taking.rotate_left(1.min(self.taking.len()));
            }
        }
    }

    fn result_answered(&mut self, call: CallId, row: Row, answer: Result<Answer, Trouble>, now: u64) {
        self.results.end(call);
        let Some(place) = self.unsent.iter().position(|unsent| unsent.row == row) else { return };
        match answer {
            // 409: the parent has a result already. Where it has none, it refuses what is said next as well.
            Ok(_) | Err(Trouble::Refused { status: 409, .. }) => {
                self.results.succeed(now, &mut self.acts);
                self.unsent.remove(place);
                self.acts.push_back(Act::Done(vec![row]));
            }
            Err(Trouble::Refused { status, text }) => {
                self.results.succeed(now, &mut self.acts);
                let Some(unsent) = self.unsent.get_mut(place) else { return };
                let offer = unsent.offer.clone();
                unsent.refusals = unsent.refusals.saturating_add(1);
                unsent.due = now + self.dice.pause(self.settings.poll_ms, unsent.refusals);
                let (refusals, give_up_at) = (unsent.refusals, unsent.give_up_at);
                // The age is told by wall clocks, and one that was wrong may make it anything.
                let is_old = give_up_at <= now && refusals >= BELIEVED_AFTER;
                if is_old || self.is_for_good(status, refusals) {
                    self.unsent.remove(place);
                    self.disown(&offer, status, &text);
                    self.acts.push_back(Act::Say(Notice::ResultGivenUp { offer, status, text }));
                    self.acts.push_back(Act::Done(vec![row]));
                } else if refusals == 1 {
                    self.acts.push_back(Act::Say(Notice::ResultRefused { offer, status, text }));
                }
            }
            Err(trouble) => self.results_failed(&trouble, now),
        }
    }

    /// Whether a parent that is there means it: it answers polls, and refuses this again and again as nothing but itself
    /// would.
    fn is_for_good(&self, status: u16, refusals: u32) -> bool {
        matches!(status, 400 | 404 | 409) && refusals >= BELIEVED_AFTER && self.polls.works()
    }

    fn disown(&mut self, offer: &str, status: u16, text: &str) {
        let Some(of) = self.facts.0.get(offer) else { return };
        let why = format!("the manager above refuses to hear of it ({status}: {})", text.trim());
        self.acts.push_back(Act::Disown { release: of.release.clone(), why });
    }

    fn results_failed(&mut self, trouble: &Trouble, now: u64) {
        self.results.fail(trouble, now, self.settings.poll_ms, &mut self.dice, &mut self.acts);
    }

    fn ready_answered(
        &mut self,
        call: CallId,
        (offer, subject, name): (String, Subject, String),
        answer: Result<Answer, Trouble>,
        now: u64,
    ) {
        self.results.end(call);
        match answer {
            Ok(_) => {
                self.results.succeed(now, &mut self.acts);
                self.unheard.remove(&offer);
                self.told.insert((offer, subject));
            }
            Err(Trouble::Refused { status, text }) => {
                self.results.succeed(now, &mut self.acts);
                let before = self.unheard.get(&offer).filter(|unheard| unheard.subject == subject);
                let refusals = before.map_or(0, |unheard| unheard.refusals).saturating_add(1);
                let due = now + self.dice.pause(self.settings.poll_ms, refusals);
                self.unheard.insert(offer.clone(), Unheard { subject, refusals, due });
                if self.is_for_good(status, refusals) {
                    self.disown(&offer, status, &text);
                } else if refusals == 1 {
                    let said = Notice::NotAwaited { offer, stage: name, status, text };
                    self.acts.push_back(Act::Say(said));
                }
            }
            Err(trouble) => self.results_failed(&trouble, now),
        }
    }

    fn ask_answered(
        &mut self,
        call: CallId,
        (offer, subject, name, waits): (String, Subject, String, bool),
        answer: Result<Answer, Trouble>,
        now: u64,
    ) {
        let poll_ms = self.settings.poll_ms;
        let Some(ask) = self.asks.get_mut(&offer) else { return };
        let began = ask.lane.began();
        if !ask.lane.end(call) {
            return;
        }
        match answer {
            Ok(Answer::EndStage { end, undo, skip, accepted }) => {
                ask.refusals = 0;
                ask.lane.succeed(again(poll_ms, waits, began, now), &mut self.acts);
                let Some(of) = self.facts.0.get(&offer) else { return };
                // Before the stage ends: what follows may be what is skipped.
                let news = skip.into_iter().filter(|stage| !undo && !of.skipped.contains(stage));
                for stage in news.take(MAX_SKIPPED) {
                    self.acts.push_back(Act::Skip { release: of.release.clone(), stage });
                }
                if let Some(failures) = subject.failures.filter(|_| accepted && !undo) {
                    self.acts.push_back(Act::Accept { release: of.release.clone(), failures });
                }
                if end {
                    let stage = subject.stage;
                    self.acts.push_back(Act::End { release: of.release.clone(), stage, undo });
                }
            }
            Ok(_) => {
                let trouble = Trouble::Passing("another call's answer".to_owned());
                ask.lane.fail(&trouble, now, poll_ms, &mut self.dice, &mut self.acts);
            }
            Err(Trouble::Refused { status, text }) => {
                ask.refusals = ask.refusals.saturating_add(1);
                let refusals = ask.refusals;
                ask.lane.succeed(now + self.dice.pause(poll_ms, refusals), &mut self.acts);
                if self.is_for_good(status, refusals) {
                    self.disown(&offer, status, &text);
                } else if refusals == 1 {
                    self.acts.push_back(Act::Say(Notice::NotAwaited { offer, stage: name, status, text }));
                }
            }
            Err(trouble) => ask.lane.fail(&trouble, now, poll_ms, &mut self.dice, &mut self.acts),
        }
    }
}

/// When a call that may have waited is made again: one that was answered before its time is not repeated at once.
fn again(poll_ms: u64, waited: bool, began: Option<u64>, now: u64) -> u64 {
    let from = began.filter(|_| waited).unwrap_or(now);
    (from + poll_ms).max(now)
}
