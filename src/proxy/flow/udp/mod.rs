//! Flows of UDP.
//!
//! What comes from one address and port to one listening socket is a *flow*. It has a socket of its own, connected to one target, so that
//! what comes back there belongs to nobody else; it goes to the caller from the listening socket. A flow ends when nothing moved for
//! `udp.idle`, when another one needs its place and it was idle for longest, or when its variation gets none any more and
//! the deadline has passed. The next datagram of that caller begins another one, by the table in force.
//!
//! One thread reads a listening socket and has all of its flows, so that a datagram always meets the flow that it belongs to.
//!
//! **A target that refuses** says so (ICMP) for one of the datagrams that it was sent, and it isn't known for which. Until the first
//! answer, and no longer than a connection may take to be made, the first datagrams are kept; where a new version refuses before that,
//! the flow goes to the stable one, with them. Should some have been taken after all, they are there twice, which may happen to any
//! datagram.
//!
//! **Over an upgrade** two processes have the listening socket, and whoever reads it gets datagrams of all callers. So it isn't
//! enough that the process that hands over reads on for its own flows: it would take datagrams of callers that it
//! doesn't know, and the other one those of flows that it doesn't have. Nor is it enough that only the new one reads: a caller in the
//! middle of a flow would reach its target from another port, for many protocols as somebody else, or reach another variation.
//! Therefore exactly one process reads at a time, and flows move with their sockets:
//!
//! 1. The process before stops reading. What comes waits in the listening socket's buffer; answers still go to the callers.
//! 2. It gives its flows, each with its socket: what waits there waits for the next process.
//! 3. The process that takes over has all flows, with their versions, before it reads.
//!
//! Nothing is lost but what finds no room in the listening socket's buffer in between; that is counted by the system alone. The
//! counter-example that is left: a process that is killed takes the sockets of its flows with it. Its callers' next datagrams begin
//! flows anew, with `sticky: address` at the same variation.
//!
//! Deliberately not here: PROXY headers, and answers from another address than the listening socket's: where that is bound to all
//! addresses of a machine, the system chooses one.

mod flow;
mod flow_handover;
mod flows;
mod listener;

pub(crate) use self::{
    flow_handover::{AdoptedFlow, FlowForm},
    listener::Listener,
};
