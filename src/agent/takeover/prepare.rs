//! What comes before a table, and after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
};

use bytes::Bytes;
use model::traffic::{Listen, Socket};
use proxy::{
    control::{
        client::ClientError,
        form::{ListenStatus, Status},
    },
    form::{AddressForm, AddressKind, ListenForm, ServiceForm},
};
use tokio::time::sleep_until;
use traffic::desired::{Host, Service, Target};

use super::{
    Inner,
    beside::may_go,
    lock, ports_of, redirects,
    rule::{Facts, Sockets, UNSHARED, Way, not_taken, place, way},
    taken::{By, Phase, Taken, kind_of},
};
use crate::{proxy_process::of_proxy, state_machine::Trouble};

impl Inner {
    /// Has all done that comes before a table. Gives what is taken over then.
    pub(super) async fn prepare(
        &self,
        services: &[Service],
        told: &[ServiceForm],
    ) -> Result<Vec<Taken>, Trouble> {
        let mut before = lock(&self.taken).clone();
        if services.is_empty() && before.is_empty() && !self.settings.sockets {
            return Ok(before);
        }
        let status: Result<Status, ClientError> = self.client.get("/status").await;
        let status = status.map_err(|error| of_proxy(&error))?;
        let listened = self.listened().await?;
        let unknown = unknown(&before, &listened.list);
        if !unknown.is_empty() {
            let ports: Vec<u16> = unknown.iter().map(|taken| taken.port).collect();
            tracing::warn!(
                "the proxy takes calls by a socket at {ports:?}, which others have as well, and it isn't known here why: they are given back \
                 unless they are wanted"
            );
            before.extend(unknown);
            self.keep(&before)?;
        }
        let mut all = before.clone();
        for taken in all.iter_mut().filter(|taken| taken.goes_on()) {
            if self.is_lost(taken, &status, &listened).await? {
                taken.phase = Phase::GivingBack;
            }
        }
        let wanted = self.wanted(services, &all, &status).await?;
        if wanted.is_empty() && before.is_empty() {
            return Ok(before);
        }
        self.plan(&mut all, &wanted, services, told).await?;
        self.check_others(&all, &listened).await?;
        self.prepare_rules(&all, &before).await?;
        let is_pending = all.iter().any(|one| one.is_by_rules() && one.phase == Phase::GivingBack);
        let sent_until = lock(&self.sent_until).map(|at| at + self.ground.settles_in());
        if let Some(until) = sent_until.filter(|_| is_pending) {
            sleep_until(until).await;
        }
        self.listen(&all, &listened).await?;
        for taken in all.iter_mut().filter(|taken| taken.phase == Phase::GivingBack) {
            taken.phase = Phase::Leaving;
            self.leaves.notify_one();
        }
        self.keep(&all)?;
        Ok(all)
    }

    /// Has all done that comes after a table.
    pub(super) async fn open(&self) -> Result<(), Trouble> {
        let mut all = lock(&self.taken).clone();
        let mut has_new_rules = false;
        for taken in all.iter_mut().filter(|taken| taken.phase == Phase::Opening) {
            taken.phase = Phase::Taken;
            has_new_rules |= taken.is_by_rules();
            let how =
                if taken.is_by_rules() { format!("at port {}", taken.at) } else { "by a socket".to_owned() };
            tracing::info!("calls to port {} are taken over, {how}", taken.port);
        }
        self.keep(&all)?;
        if has_new_rules || self.differs.load(Ordering::SeqCst) {
            match self.put(&self.look().await, &all, &redirects(&all)).await {
                Ok(()) => self.differs.store(false, Ordering::SeqCst),
                Err(trouble) if has_new_rules => return Err(trouble),
                // As before the table.
                Err(_) => {}
            }
        }
        self.finish_or_say().await;
        Ok(())
    }

    /// What other programs have at a port of TCP; none: nothing is taken over by a socket.
    async fn sockets_at(&self, status: &Status, port: u16) -> Result<Option<Sockets>, Trouble> {
        let Some(lent) = status.lent.as_ref().filter(|_| self.settings.sockets) else { return Ok(None) };
        let lent = lent.iter().filter(|at| at.port() == port).map(SocketAddr::ip).collect();
        let mut beside = self.apart(move |ground| ground.beside(Some(port))).await?;
        Ok(Some(Sockets { lent, others: beside.remove(&port).unwrap_or_default() }))
    }

    /// The ports of services to which calls are to be taken over, and how.
    async fn wanted(
        &self,
        services: &[Service],
        taken: &[Taken],
        status: &Status,
    ) -> Result<Vec<(Listen, Way)>, Trouble> {
        let (own, metrics) = (self.own_ports(status), ports_of(&status.metrics));
        let (shares, marks) = (self.settings.sockets && status.lent.is_some(), status.marks);
        let own_targets = self.own_targets(services).await?;
        let mut wanted = Vec::new();
        for service in services {
            for listen in &service.listens {
                if own.iter().any(|open| open.take(listen)) {
                    continue;
                }
                let is_target = is_target(service, listen, &own_targets);
                let goes_on = taken.iter().find(|taken| taken.is_for(listen));
                if let Some(taken) = goes_on.filter(|taken| taken.is_by_socket() && shares && !is_target) {
                    // Whoever listens there by now, besides.
                    let joined = taken.of.iter().filter(|address| !taken.lent.contains(address));
                    let (lent, joined) = (taken.lent.clone(), joined.copied().collect());
                    wanted.push((listen.clone(), Way::Socket { lent, joined }));
                    continue;
                }
                // What is sent by rules stays so, and who listens there needn't be read.
                let stays = goes_on.is_some_and(Taken::is_by_rules) && self.settings.nftables && marks;
                let sockets = if stays { None } else { self.sockets_at(status, listen.port).await? };
                let facts = Facts {
                    own: &own,
                    metrics: &metrics,
                    sockets: sockets.as_ref(),
                    is_allowed: self.settings.nftables,
                    marks,
                    is_target,
                };
                match way(listen, facts) {
                    Ok(way) => wanted.push((listen.clone(), way)),
                    // Then the proxy refuses the table itself, as ever.
                    Err(_) if !self.settings.nftables && !self.settings.sockets => {}
                    Err(_) if !self.settings.nftables && status.lent.is_none() => {
                        return Err(Trouble::refused(not_taken(listen.port, UNSHARED)));
                    }
                    Err(why) => return Err(Trouble::refused(why)),
                }
            }
        }
        Ok(wanted)
    }

    /// The addresses of this machine at which targets are.
    async fn own_targets(&self, services: &[Service]) -> Result<Vec<IpAddr>, Trouble> {
        let targets = services.iter().flat_map(|service| &service.variations);
        let targets = targets.flat_map(|variation| &variation.targets);
        let address = |target: &Target| match target.host {
            Host::Address(address) => Some(address),
            Host::Name(_) => None,
        };
        let addresses: Vec<IpAddr> = targets.filter_map(address).collect();
        if addresses.is_empty() || !self.settings.sockets {
            return Ok(Vec::new());
        }
        self.apart(move |ground| ground.own_of(&addresses)).await
    }

    /// What is to become of what is taken over, and what is to be.
    async fn plan(
        &self,
        all: &mut Vec<Taken>,
        wanted: &[(Listen, Way)],
        services: &[Service],
        told: &[ServiceForm],
    ) -> Result<(), Trouble> {
        for taken in all.iter_mut().filter(|taken| taken.goes_on()) {
            let fits = |way: &Way| matches!(way, Way::Socket { .. }) == taken.is_by_socket();
            let is_wanted = wanted.iter().any(|(listen, way)| taken.is_for(listen) && fits(way))
                || told.iter().any(|form| taken.is_told_of(form));
            if !is_wanted {
                taken.phase = Phase::GivingBack;
            }
        }
        let called = services.iter().flat_map(|service| &service.listens).map(|listen| listen.port);
        let targets = services.iter().flat_map(|service| &service.variations);
        let targets = targets.flat_map(|variation| &variation.targets).map(|target| target.port);
        let mut in_use: BTreeSet<u16> =
            called.chain(targets).chain(all.iter().map(|taken| taken.at)).collect();
        for (listen, way) in wanted {
            if all.iter().any(|taken| taken.is_for(listen)) {
                continue;
            }
            let (port, kind, phase) = (listen.port, kind_of(listen), Phase::Opening);
            all.push(match way {
                Way::Own => continue,
                Way::Socket { lent, joined } => {
                    let (of, lent) = ([lent.as_slice(), joined].concat(), lent.clone());
                    Taken { port, kind, by: By::Socket, of, lent, at: port, phase }
                }
                Way::Nftables => {
                    let (of, at) = self.place(listen.socket(), &in_use).await?;
                    in_use.insert(at);
                    Taken { port, kind, by: By::Rules, of, lent: Vec::new(), at, phase }
                }
            });
        }
        Ok(())
    }

    /// From where callers of a port come that are sent elsewhere, and where the proxy is to listen for them.
    async fn place(&self, called: Socket, in_use: &BTreeSet<u16>) -> Result<(Vec<IpAddr>, u16), Trouble> {
        let (ports, in_use) = (self.settings.ports, in_use.clone());
        let placed = self.apart(move |ground| {
            let of = ground.listeners(called);
            let at = place(called, ports, &in_use, |socket| ground.is_free(socket, &of))?;
            Ok::<_, String>((of, at))
        });
        placed.await?.map_err(Trouble::refused)
    }

    /// Whether the proxy doesn't listen where it is to, and can't.
    async fn is_lost(
        &self,
        taken: &Taken,
        status: &Status,
        ListenStatus { list, missing, .. }: &ListenStatus,
    ) -> Result<bool, Trouble> {
        let is_listed = list.listen.iter().any(|form| taken.is_at(form));
        if is_listed && !missing.iter().any(|form| taken.is_at(form)) {
            return Ok(false);
        }
        if taken.is_by_rules() {
            let (opened, of) = (taken.opened(), taken.of.clone());
            return self.apart(move |ground| !ground.is_free(opened, &of)).await;
        }
        let Some(Sockets { lent, others }) = self.sockets_at(status, taken.port).await? else {
            return Ok(true);
        };
        let can_be = |address: &IpAddr| {
            if taken.lent.contains(address) {
                // One that is there, is in the list, and isn't listened on has lost its port.
                !is_listed && lent.contains(address)
            } else {
                others.iter().all(|(there, can_be_joined)| there != address || *can_be_joined)
            }
        };
        Ok(!taken.of.iter().all(can_be))
    }

    /// Nothing that comes by a socket is given back before somebody else takes it.
    async fn check_others(&self, all: &[Taken], listened: &ListenStatus) -> Result<(), Trouble> {
        let given_back = all.iter().filter(|taken| taken.is_by_socket() && taken.phase == Phase::GivingBack);
        for taken in given_back {
            let is_listed = listened.list.listen.iter().any(|form| taken.is_at(form));
            // It is wanted again before it was given back.
            let stays = all.iter().any(|other| other.goes_on() && other.has_sockets_of(taken));
            if is_listed && !stays && !may_go(&self.others(taken.port).await?) {
                return Err(Trouble::waits(format!(
                    "port {} can't be given back before another program takes calls there again, since nobody would: start it; that is looked \
                     at each second",
                    taken.port
                )));
            }
        }
        Ok(())
    }

    /// Has no more callers sent by rules than the next table has.
    async fn prepare_rules(&self, all: &[Taken], before: &[Taken]) -> Result<(), Trouble> {
        let of_rules =
            |all: &[Taken]| all.iter().filter(|one| one.is_by_rules()).cloned().collect::<Vec<_>>();
        let rules = of_rules(all);
        let is_pending = rules.iter().any(|one| matches!(one.phase, Phase::Opening | Phase::GivingBack));
        if !is_pending && rules == of_rules(before) && !self.differs.load(Ordering::SeqCst) {
            return self.keep(all);
        }
        let found = self.look().await;
        let opening = rules.iter().find(|one| one.phase == Phase::Opening);
        if let (Some(opening), Err(trouble)) = (opening, &found) {
            return Err(Trouble::refused(not_taken(opening.port, &trouble.text)));
        }
        self.keep(all)?;
        // No more than what is in force: the table may not have the others yet.
        let mut now = redirects(all);
        if let Ok(found) = &found {
            now.retain(|socket, redirect| found.sent.get(socket) == Some(&redirect.to));
        }
        match self.put(&found, all, &now).await {
            Err(trouble) if is_pending => Err(trouble),
            // That was said when it was looked, and is tried again.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Has the proxy listen for what is taken over, and for nothing else of ours.
    async fn listen(&self, all: &[Taken], listened: &ListenStatus) -> Result<(), Trouble> {
        let ListenStatus { list, missing, .. } = listened;
        let is_ours = |form: &AddressForm| all.iter().any(|taken| taken.is_at(form));
        let is_anothers = |at: &SocketAddr| !all.iter().any(|taken| !taken.is_udp() && taken.at == at.port());
        let mut next = ListenForm { generation: list.generation + 1, ..list.clone() };
        next.listen.retain(|form| !is_ours(form));
        next.lent.retain(is_anothers);
        next.joined.retain(is_anothers);
        for taken in all.iter().filter(|taken| taken.goes_on()) {
            let form = |address| AddressForm { kind: taken.kind, address };
            if taken.is_by_rules() {
                let (at, of) = (taken.at, taken.of.clone());
                let addresses = self.apart(move |ground| ground.addresses(at, &of)).await?;
                next.listen.extend(addresses.into_iter().map(form));
            }
            next.listen.extend(taken.sockets().map(form));
            let is_lent = |at: &SocketAddr| taken.lent.contains(&at.ip());
            next.lent.extend(taken.sockets().filter(is_lent));
            next.joined.extend(taken.sockets().filter(|at| !is_lent(at)));
        }
        next.listen.sort_unstable();
        next.lent.sort_unstable();
        next.joined.sort_unstable();
        let is_same = next == ListenForm { generation: next.generation, ..list.clone() };
        if is_same && !missing.iter().any(is_ours) {
            return Ok(());
        }
        let body = serde_json::to_vec(&next).map_err(|error| Trouble::refused(error.to_string()))?;
        let put: Result<ListenStatus, ClientError> = self.client.put("/listen", Bytes::from(body)).await;
        let listened = put.map_err(|error| of_proxy(&error))?;
        let goes_on = |form: &&AddressForm| all.iter().any(|taken| taken.goes_on() && taken.is_at(form));
        match listened.missing.iter().find(goes_on) {
            None => Ok(()),
            Some(form) => Err(Trouble::passing(format!(
                "the proxy can't listen at {} any more, where it takes calls over: its log says why; tried again",
                form.address
            ))),
        }
    }
}

/// What the proxy's list has by sockets of others' ports, and isn't known: an agent has taken it over whose memory is lost, or can't be read.
/// Nobody else would give it back; and once no table has its service, nobody takes what the kernel gives to these sockets.
fn unknown(known: &[Taken], list: &ListenForm) -> Vec<Taken> {
    let mut found = BTreeMap::<(u16, AddressKind), (Vec<IpAddr>, Vec<IpAddr>)>::new();
    for AddressForm { kind, address } in list.listen.iter().filter(|form| form.kind != AddressKind::Udp) {
        let (port, is_lent) = (address.port(), list.lent.contains(address));
        let is_known = known.iter().any(|taken| taken.is_by_socket() && taken.port == port);
        if is_known || !(is_lent || list.joined.contains(address)) {
            continue;
        }
        let (of, lent) = found.entry((port, *kind)).or_default();
        of.push(address.ip());
        lent.extend(is_lent.then_some(address.ip()));
    }
    let taken = |((port, kind), (of, lent))| {
        let (by, phase) = (By::Socket, Phase::Taken);
        Taken { port, kind, by, of, lent, at: port, phase }
    };
    found.into_iter().map(taken).collect()
}

/// Whether calls of a service to a port would come back there, as far as its targets say. `own`: addresses of this machine.
fn is_target(service: &Service, listen: &Listen, own: &[IpAddr]) -> bool {
    let is_own = |host: &Host| {
        host.is_this_machine() || matches!(host, Host::Address(address) if own.contains(address))
    };
    let mut targets = service.variations.iter().flat_map(|variation| &variation.targets);
    targets.any(|target| target.port == listen.port && is_own(&target.host))
}
