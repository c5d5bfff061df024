//! Ports of other programs at which this proxy takes connections as well, by a socket.
//!
//! There are two kinds ([`Sharing`]). A *lent* socket is one that somebody else has made and several programs have: systemd gives it to the
//! proxy too (`Sockets=`). All that have it accept from one queue. A *joined* one is the proxy's own, at an address at which others listen
//! with `SO_REUSEPORT`: the kernel gives each new connection to one of the sockets, and each has a queue of its own. The rule of both is
//! that **the proxy accepts before the other program lets go, and that accepts again before the proxy lets go**: in between either does,
//! so none is lost.
//!
//! Invariants:
//!
//! 1. Nothing is accepted before the table in force has a service at the port, and a joined socket doesn't listen before: until then
//!    connections are the other program's alone.
//! 2. Nothing that a caller has sent is lost when a joined socket is closed: it takes no new connection, those that were on their way are
//!    accepted, and only then it is closed. The last process of the proxy that has it does so, and no other one.
//! 3. A lent socket is never closed here because a list doesn't name it any more, nor is what waits there taken then: others have it.
//! 4. A lent socket at which somebody else has ended listening listens again.
//! 5. Whether somebody else accepts at a lent socket is asked by letting them, for `ANOTHERS_TURN`. Whoever asks may end meanwhile: it is
//!    paused for no longer than `PAUSE`.
//! 6. Nobody who waits for a connection is held up: a lent socket is one that doesn't wait, and stays so.
//!
//! What would go wrong otherwise:
//!
//! - *A joined socket listens as soon as it is bound.* It gets its part of the connections, and the table has no service for them yet: they
//!   are answered with 404, or wait for a table that was refused.
//! - *A joined socket is closed once its queue is empty.* Between that look and the close a handshake ends, and its caller is reset. So
//!   beginnings of connections are dropped first; whoever sent one sends it again after a second, and the kernel gives it to somebody else.
//! - *A process that another one replaces has beginnings dropped*, as it closes its sockets, too: that is so for all who have the socket, so
//!   nobody would reach the one that goes on with it.
//! - *A joined socket goes on for something else*, as where its service had HTTP and has TCP now: to close it for the one has beginnings
//!   dropped for the other, too, for good. So whoever takes connections from one has them taken again.
//! - *What waits at a lent socket is taken when it is given back*, as at one of the proxy's own: harmless to callers, and endless where
//!   they come all the time.
//! - *Another program drains by `shutdown`*, as many do. That ends listening for all who have the socket: `accept` gives `EINVAL` from then
//!   on. To the reactor such a socket is closed for good, also once it listens again: whoever waits there for connections asks the kernel
//!   again and again, and nothing else on that thread gets its turn. It has to be registered anew.
//! - *The socket was bound to any free port.* Once it has ended listening, the kernel has forgotten the port, and it would come back at
//!   another one.
//! - *A program waits in `accept`, and so isn't ready for being told that nothing waits.* Whether one waits is a property of the socket, which
//!   all have in common: the program would fail because of the proxy. And systemd changes that whenever it starts a unit that has the
//!   socket. So one that waits isn't taken, and before each `accept` here it is seen to that this one doesn't.
//! - *Every other socket at the port is taken for somebody else's*: where programs listen at several addresses that have callers in common, as
//!   at all of IPv4 and all of IPv6, the proxy has several as well. And who listens at one address is nobody for the callers of all others.
//! - *The length of the queue is looked at* to see whether anybody else accepts: others come meanwhile. Which connection has left it is
//!   known for sure: the one that was made for that is still there or isn't.
//! - *A connection that isn't in the queue is taken for one that somebody else has.* It may not have come there: the kernel keeps one back until
//!   its first bytes come, where the socket was made so (`DeferAcceptSec=`), or until there is room. So it is looked whether it has begun only.
//!
//! Datagrams aren't taken so: `SO_REUSEPORT` would give flows that are there to another socket as soon as there is one more, and a socket
//! that is lent has no flows at all: each datagram would go to whoever reads first.

pub(crate) mod accept;
pub mod listening;
pub mod socket;

use std::time::Duration;

/// Whose the socket is at which it is listened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// The proxy's alone, and so is the address.
    #[default]
    Alone,
    /// Another program has it as well.
    Lent,
    /// The proxy's alone, beside those of other programs at the same address.
    Joined,
}

/// How long nothing is accepted at a lent socket, at most, while it is asked who else does. It takes `ANOTHERS_TURN` and a little more, and longer
/// where threads have much to do: what takes longer than this says nothing, and a port of which nothing is known isn't given back.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// How long others have to accept a connection that was made to see whether they do.
pub(crate) const ANOTHERS_TURN: Duration = Duration::from_millis(50);
