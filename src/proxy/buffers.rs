use std::cell::RefCell;

use bytes::BytesMut;

/// Buffers that are kept at the most.
const MOST: usize = 64;
/// A larger one isn't kept, in bytes.
const LARGEST: usize = 32 * 1024;

/// Buffers of a thread that nobody uses just now, so that a call allocates none. What waits holds none, so these few serve any number of
/// connections.
#[derive(Debug, Default)]
pub(crate) struct Buffers(RefCell<Vec<BytesMut>>);

impl Buffers {
    /// An empty one, of which some have room already.
    pub(crate) fn take(&self) -> BytesMut {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back what is needed no more, with whatever is in it.
    pub(crate) fn give_back(&self, mut buffer: BytesMut) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < MOST && (1..=LARGEST).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }
}
