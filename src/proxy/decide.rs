//! What is decided about a call, and counted of it, whatever protocol its caller and its versions speak.

use std::rc::Rc;

use tokio::time::Instant;
use traffic::{Choice, Failure, Retry, Sticky, Variation, may_repeat};

use crate::{
    access_log::Line,
    answer::Own,
    caller::Caller,
    count::{CallCount, Counts},
    head::RequestSummary,
    live::{Local, Protocol, Served},
    proxy_protocol,
    shadow::{Shadow, Watch},
    worker::Worker,
};

/// How many targets of a version a call waits for that don't even refuse a connection.
pub(crate) const SILENT_TARGETS: usize = 3;

/// Which versions a call may go to, and when it goes to the second.
#[derive(Debug)]
pub(crate) struct RoutingDecision {
    chosen: Rc<Served>,
    /// Where it goes if the chosen version fails it; none where that is the stable one already.
    stable: Option<Rc<Served>>,
    retry: Retry,
    /// A header asked for the chosen one.
    by_header: bool,
    /// Of the call's key, among all keys.
    group: Option<u8>,
    /// The value of the `Set-Cookie` field that gives the caller the key with which the choice stays.
    pub cookie: Option<String>,
    /// What a connection to its versions begins with; such a connection is this call's alone.
    pub header: Option<Box<[u8]>>,
    /// Where the call is copied to once it was answered; the chosen version is the stable one then.
    shadow: Option<Rc<Shadow>>,
}

impl RoutingDecision {
    /// Chooses the version of a call to a service.
    pub(crate) fn new(
        local: &Local,
        service: usize,
        (call, caller): (&impl traffic::Call, &Caller),
        method: &str,
    ) -> Self {
        let service = local.service(service);
        let shared = service.shared();
        let choice = shared.choose(call, || fastrand::u64(..));
        let shadow = service.shadow().filter(|shadow| choice.variation.is_stable() && shadow.wants(method));
        let served = |variation: Variation| Rc::clone(service.served(variation));
        Self {
            chosen: served(choice.variation),
            stable: (!choice.variation.is_stable()).then(|| served(Variation::STABLE)),
            retry: shared.retry(method),
            by_header: choice.by_header,
            group: choice.group,
            cookie: cookie(shared.sticky(), &choice),
            header: shared.header().map(|of| proxy_protocol::header(of, caller.source(), caller.destination)),
            shadow: shadow.cloned(),
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// Whether any of the versions that it may go to speaks HTTP/2.
    pub(crate) fn may_need_http2(&self) -> bool {
        std::iter::once(&self.chosen)
            .chain(&self.stable)
            .any(|served| served.version.shared().protocol() == Protocol::H2c)
    }

    /// Whether the call may have to be sent from its beginning after something of it was sent. A version that speaks HTTP/2 can
    /// refuse a call that it was sent, whatever the method.
    pub(crate) fn may_be_sent_again(&self) -> bool {
        self.retry == Retry::Failed || self.may_need_http2()
    }

    /// Counts the call, whose head was whole at `began`, from here to its end.
    pub(crate) fn count<'w>(
        &self,
        counts: &'w Counts,
        began: Instant,
        line: Option<Box<Line>>,
    ) -> CallCount<'w> {
        counts.begin(self.chosen.counted(self.by_header), self.group, began, line)
    }

    /// The version that the call goes to first.
    pub(crate) fn begin(&self, count: &mut CallCount<'_>) -> &Rc<Served> {
        match &self.stable {
            Some(stable) if self.chosen.version.is_passed_over() => {
                count.pass_over();
                stable
            }
            _ => &self.chosen,
        }
    }

    /// Where the call goes if this version fails it.
    pub(crate) fn after(&self, served: &Rc<Served>) -> Option<&Rc<Served>> {
        self.stable.as_ref().filter(|_| self.is_chosen(served))
    }

    /// Whether a status from 500 to 599 is kept from the caller.
    pub(crate) fn status_fails(&self, served: &Rc<Served>) -> bool {
        self.after(served).is_some() && may_repeat(self.retry, Failure::Status)
    }

    /// Notes how an attempt went, for whether the next calls pass the version over.
    pub(crate) fn note_attempt(&self, served: &Rc<Served>, failed: bool) {
        if self.after(served).is_some() {
            self.chosen.version.note(failed);
        }
    }

    /// The version on which a call is repeated that this one failed, if it is.
    pub(crate) fn repeat_on(
        &self,
        count: &mut CallCount<'_>,
        served: &Rc<Served>,
        failure: Failure,
        can_be_sent: bool,
    ) -> Option<&Rc<Served>> {
        let stable = self.after(served).filter(|_| may_repeat(self.retry, failure) && can_be_sent)?;
        count.repeat(failure);
        Some(stable)
    }

    /// Counts that the call was sent to the same version again on a new connection, since the old one had ended.
    pub(crate) fn note_sent_again(&self, counts: &Counts, served: &Served) {
        counts.note_sent_again(served.counted(self.by_header));
    }

    /// What notes the answer to a call that is to be copied, the head of which a version that speaks HTTP/1.1 gets so.
    pub(crate) fn watch(&self, asked: RequestSummary, head: impl FnOnce() -> Vec<u8>) -> Option<Watch> {
        self.shadow.as_ref().and_then(|_| Watch::new(&head(), asked))
    }

    /// Copies a call that was answered with this status.
    pub(crate) fn copy(&self, watch: Option<Watch>, status: u16, worker: &Rc<Worker>) {
        if let (Some(shadow), Some(watch)) = (&self.shadow, watch) {
            shadow.copy(watch, status, worker);
        }
    }

    /// The field that gives the caller the key, with its line end; empty where there is none.
    pub(crate) fn cookie_field(&self) -> Vec<u8> {
        let line = |cookie: &String| [b"Set-Cookie: ", cookie.as_bytes(), b"\r\n"].concat();
        self.cookie.as_ref().map(line).unwrap_or_default()
    }

    fn is_chosen(&self, served: &Rc<Served>) -> bool {
        Rc::ptr_eq(served, &self.chosen)
    }
}

/// What the caller is told when a version failed its call. Addresses and the like stand in the log alone.
pub(crate) fn told_of(served: &Served, failure: Failure, is_full: bool) -> Own {
    let (status, why) = match failure {
        Failure::Refused if is_full => (503, "all its places are taken"),
        Failure::Refused => (502, "no connection to it could be made"),
        Failure::Died => (502, "it ended the connection before its answer was there"),
        Failure::TimedOut => (504, "it took too long"),
        Failure::Nonsense => (502, "what it answered is no HTTP with one meaning"),
        Failure::Status => (502, "it answered with a server error"),
    };
    Own {
        status,
        error: failure.name(),
        text: format!("version {:?} did not answer this call: {why}", served.version.shared().name()),
        retry_after: is_full.then_some(1),
    }
}

fn cookie(sticky: Option<&Sticky>, choice: &Choice) -> Option<String> {
    match (sticky, choice.new_cookie()) {
        (Some(Sticky::Cookie(name)), Some(key)) => {
            Some(format!("{name}={key}; Path=/; HttpOnly; SameSite=Lax"))
        }
        (Some(_) | None, _) => None,
    }
}
