//! What operators ask of a router.

use model::{Now, traffic::OrderWhat};

/// Most orders of a router that are remembered.
pub const MAX_ORDERS: usize = 16;

/// Something that an operator asked of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Never given again.
    pub number: u64,
    pub what: OrderWhat,
    pub service: Option<String>,
    /// The path of another main configuration, on the agent's machine.
    pub config: Option<String>,
    /// Who asked.
    pub by: String,
    pub at: Now,
    /// In serving time, in milliseconds.
    pub until_ms: u64,
    pub answer: Option<Answer>,
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub is_ok: bool,
    /// In lines.
    pub text: String,
    pub left_over: Vec<String>,
    pub at: Now,
}

/// How an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderState {
    /// It is handed out until it is answered.
    Open,
    Done,
    Failed,
    /// Nobody answered in time, and nobody asks any more. It may have been carried out.
    Expired,
}

impl OrderState {
    pub const ALL: [Self; 4] = [Self::Open, Self::Done, Self::Failed, Self::Expired];

    /// As the API has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

impl Order {
    /// How it stands at this serving time.
    #[must_use]
    pub fn state(&self, served_ms: u64) -> OrderState {
        match &self.answer {
            Some(answer) if answer.is_ok => OrderState::Done,
            Some(_) => OrderState::Failed,
            None if served_ms < self.until_ms => OrderState::Open,
            None => OrderState::Expired,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| {
            answer.text.len() + answer.left_over.iter().map(|one| one.len() + 24).sum::<usize>()
        });
        let texts = [&self.service, &self.config].into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + texts + self.by.len() + answer
    }
}
