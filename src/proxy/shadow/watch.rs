use super::compare::{Content, Framed};
use crate::head::{Framing, RequestSummary};

/// The field that says that a call is a copy, whose answer nobody gets.
const FIELD: &[u8] = b"X-Choirmaster-Shadow: 1\r\n\r\n";

/// A call that is to be copied, while its caller is answered.
#[derive(Debug)]
pub(crate) struct Watch {
    head: Vec<u8>,
    asked: RequestSummary,
    answer: Framed,
}

impl Watch {
    /// `head`: as a version gets it that speaks HTTP/1.1. A call with a body isn't copied, nor one that asks for another protocol.
    pub(crate) fn new(head: &[u8], asked: RequestSummary) -> Option<Self> {
        if asked.framing != Framing::None || asked.upgrade {
            return None;
        }
        // In the place of the empty line that ends it.
        let head = [&head[..head.len().checked_sub(2)?], FIELD].concat();
        Some(Self { head, asked, answer: Framed::new(Framing::None) })
    }

    /// The head of the answer is passed on.
    pub(crate) fn begin(&mut self, framing: Framing) {
        self.answer = Framed::new(framing);
    }

    /// Notes bytes of the answer's body, with what frames it.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        // A body that isn't one ends the call, so that there is nothing to copy.
        let _ = self.answer.take(bytes);
    }

    /// Notes bytes of the answer's body, without what frames it.
    pub(crate) fn see_data(&mut self, data: &[u8]) {
        self.answer.content.add(data);
    }

    pub(super) fn finish(self) -> (Vec<u8>, RequestSummary, Content) {
        (self.head, self.asked, self.answer.content)
    }
}
