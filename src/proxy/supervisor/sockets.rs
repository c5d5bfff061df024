use std::fs::File;

use super::{Plan, error::HoldError};
use crate::{
    handover_socket::MAX_PATH,
    listed::Listed,
    local_http::socket,
    sockets::{Kind, Listen, MAX_ADDRESSES, Open, Socket, Sockets},
};

/// Makes sure that nobody else holds this control socket, for as long as the file is open.
pub(super) fn lock(plan: &Plan) -> Result<File, HoldError> {
    let takes_calls = plan.listen.iter().any(|listen| listen.kind != Kind::Metrics);
    if !takes_calls && plan.inherited.is_empty() {
        return Err(HoldError::NoAddress);
    }
    if plan.listen.len() + plan.inherited.len() > MAX_ADDRESSES {
        return Err(HoldError::TooMany);
    }
    let path = &plan.control;
    if path.as_os_str().len() > MAX_PATH {
        return Err(HoldError::LongPath { path: path.clone() });
    }
    let control = |source| HoldError::Control { path: path.clone(), source };
    socket::make_folder_of(path).map_err(control)?;
    socket::lock(path).map_err(control)?.ok_or_else(|| HoldError::Running(path.clone()))
}

/// The sockets to listen on: those that were given or taken where they are asked for, others anew. Of those that were taken the list
/// gets its own, and of those that were given those that are lent.
pub(super) fn make(
    plan: &mut Plan,
    taken: Option<Sockets>,
    listed: &mut Listed,
) -> Result<Sockets, HoldError> {
    let path = &plan.control;
    let (mut there, control) = match taken {
        Some(sockets) => (sockets.open, Some(sockets.control)),
        None => (Vec::new(), None),
    };
    // Whoever starts this process lends them again.
    there.retain(|open| open.kind != Kind::Lent);
    let (mut open, mut lent) = (Vec::new(), Vec::new());
    let mut wanted = plan.listen.clone();
    for socket in plan.inherited.drain(..) {
        let address = socket.local_addr()?;
        let asked = address.to_string();
        let at = wanted.iter().position(|wanted| wanted.is_met_by(&socket, address));
        match (at.map(|at| wanted.remove(at).kind), socket.is_udp()) {
            (Some(kind), _) => open.push(Open { kind, asked, socket }),
            (None, false) if plan.shares => lent.push(Open { kind: Kind::Lent, asked, socket }),
            (None, false) => open.push(Open { kind: Kind::Plain, asked, socket }),
            (None, true) if plan.shares => tracing::warn!(
                "the socket for datagrams at {address} isn't used: they are taken over by nftables alone, and it isn't in udp.listen"
            ),
            (None, true) => open.push(Open { kind: Kind::Udp, asked, socket }),
        }
    }
    for Listen { kind, address } in wanted {
        let asked = address.to_string();
        // Several may have asked for any port; else an address is one socket, whatever it was for.
        let same = |open: &Open| {
            open.asked == asked
                && open.kind.is_udp() == kind.is_udp()
                && (open.kind == kind || address.port() != 0)
        };
        let socket = match there.iter().position(same) {
            Some(at) => there.remove(at).socket,
            None => Socket::bind(Listen { kind, address })
                .map_err(|source| HoldError::Listen { address, source })?,
        };
        open.push(Open { kind, asked, socket });
    }
    open.iter().try_for_each(|open| open.socket.deepen())?;
    let configured: Vec<Listen> = open.iter().filter_map(Open::listen).collect();
    let most = MAX_ADDRESSES.saturating_sub(configured.len() + lent.len());
    if plan.shares {
        listed.share(lent);
    }
    listed.adopt(&mut there, &configured, most);
    let control = match control.filter(|_| path.exists()) {
        Some(control) => control,
        None => socket::bind(path).map_err(|source| HoldError::Control { path: path.clone(), source })?,
    };
    Ok(Sockets { open, control })
}
