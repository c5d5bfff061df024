//! What lies between those that call each other: calls and answers are late, lost, there twice, or come out as something else.

use domain::{
    children,
    release::{
        command::{Command, Reply},
        lifecycle, members,
    },
};

use super::{
    call::{Beside, Caller, Request, Response},
    links,
    own::Happening,
    world::{Event, World},
};

/// A broken connection is noticed after at most so long.
const LOST_MS: u64 = 5_000;

impl World {
    pub(super) fn delay(&mut self) -> u64 {
        if self.dice.chance(self.weather.slow) {
            self.dice.between(500, 8_000)
        } else {
            self.dice.between(1, 40)
        }
    }

    pub(super) fn send(&mut self, manager: usize, caller: Caller, call: u64, request: Request) {
        let is_childs = matches!(caller, Caller::Agent { .. } | Caller::Whole { .. } | Caller::Link { .. });
        if is_childs && self.dice.chance(self.weather.twice) {
            let at = self.at + self.dice.between(1, 15_000);
            let request = match request.clone() {
                Request::Patient(command, _) => Request::Heart(command),
                other => other,
            };
            self.plan(at, Event::Call { manager, caller: Caller::Nobody, call, request });
        }
        if self.dice.chance(self.weather.lost) {
            self.tell(|| format!("lost on its way: {caller:?} {}", brief(&request)));
            return self.lose(caller, call);
        }
        let at = self.at + self.delay();
        self.plan(at, Event::Call { manager, caller, call, request });
    }

    pub(super) fn lose(&mut self, caller: Caller, call: u64) {
        let at = self.at + self.dice.between(1, LOST_MS);
        self.answer(at, caller, call, Response::Lost, Beside::default());
    }

    pub(super) fn answer(&mut self, at: u64, caller: Caller, call: u64, response: Response, beside: Beside) {
        match caller {
            Caller::Agent { index, process } => {
                self.plan(at, Event::Answer { index, process, call, response });
            }
            Caller::Whole { index, process } => {
                let response = self.garble_for_own(response);
                self.plan_own(at, index, Happening::Answered { process, flight: call, response });
            }
            Caller::Link { manager, life, call } => {
                let (response, beside) = self.garble(manager, response, beside);
                self.plan(at, Event::Back { manager, life, call, response, beside });
            }
            Caller::Own { .. } | Caller::Operator | Caller::Nobody => {}
        }
    }

    /// What may become of the answer of a parent.
    fn garble(&mut self, manager: usize, response: Response, mut beside: Beside) -> (Response, Beside) {
        if !self.dice.chance(self.weather.garbled) {
            return (response, beside);
        }
        match (response, self.dice.below(4)) {
            (Response::Lost, _) => (Response::Lost, beside),
            // It is its own ancestor.
            (Response::Heart(answer), 0) => {
                beside.above.push(links::own_id(manager));
                (Response::Heart(answer), beside)
            }
            // An offer that nobody made.
            (Response::Heart(mut answer), 1) => {
                if let Ok(Reply::Polled { offer, .. }) = &mut *answer {
                    *offer = Some(format!("nonsense-{}", self.dice.below(1_000)));
                }
                (Response::Heart(answer), beside)
            }
            (_, 2) => (Response::Garbled(Some(self.dice.pick(&[400, 403, 404]))), beside),
            _ => (Response::Garbled(None), beside),
        }
    }
}

/// Nothing to tell of.
pub(super) fn is_dull(request: &Request) -> bool {
    match request {
        Request::Functions => true,
        Request::Heart(command) | Request::Patient(command, _) => {
            matches!(
                **command,
                Command::Children(children::Command::Poll(_))
                    | Command::Members(members::Command::EndStage { .. })
            )
        }
    }
}

pub(super) fn brief(request: &Request) -> String {
    match request {
        Request::Functions => "functions".to_owned(),
        Request::Heart(command) | Request::Patient(command, _) => match &**command {
            Command::Lifecycle(lifecycle::Command::Submit { submission, .. }) => {
                format!("Submit {}", submission.id)
            }
            Command::Children(children::Command::Poll(poll)) => format!("Poll {:?}", poll.child),
            Command::Members(members::Command::Result { child, offer, reports }) => {
                let summary = &reports[0].summary;
                format!("Result {child} {offer} {:?} {}", summary.stage_name, summary.status)
            }
            other => format!("{other:?}"),
        },
    }
}

const LONGEST_LINE: usize = 300;

pub(super) fn cut(text: &str) -> String {
    text.chars().take(LONGEST_LINE).collect()
}
