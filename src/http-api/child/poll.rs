//! `POST /poll`.

use std::{borrow::Cow, future::pending, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use tokio::time::sleep;
use uuid::Uuid;

use super::{
    body::ChildBody,
    caller::{CallerAddress, check_token, expect_json, holder, is_open},
    refused::Refused,
    reply::json,
    survey,
    wait::{Wait, WaitingCall},
};
use crate::{Context, context::PATIENCE, quota};
use domain::{
    children::{self, Poll, Profile},
    release::{
        command::{Command, Reply},
        manager::FEATURE_RETRY,
        next_action,
        offer::OfferKind,
    },
};
use engine::{
    By, EngineError,
    joining::id_of_nonce,
    open_questions::{Next, QuestionLease},
    stats::Stats,
    view::{ChildEntry, Mode, Published, ReleaseEntry},
};
use model::{
    ChildId, ChildKey, FEATURE_AGENTS, FEATURE_CLASSES, FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_PLACEMENTS,
    FEATURE_ROUTERS, FEATURE_RUNS, FEATURE_SERVICES, FEATURE_TRAFFIC, FEATURE_VALUES,
};
use protocol::{
    PollRequest,
    child::{MAX_POLL_BODY_BYTES, MAX_RM_IDS, PollAnswer},
    question::{FEATURE_QUESTIONS, MAX_QUESTION_BYTES, MAX_QUESTIONS, QuestionForm},
};

/// Another address of a child is noted at most once in this time.
const ADDRESS_EVERY: Duration = Duration::from_mins(5);

/// How often a call that waits asks whether what rests may be offered.
const ASKED_WHILE_IT_RESTS: Duration = Duration::from_secs(3);

/// What agents are told that they may add to the plain protocol, where they name features of their own.
const AGENT_FEATURES: [&str; 3] = [FEATURE_INTERIM, FEATURE_VALUES, FEATURE_GROUPS];

/// A child's regular call: it says where it is and asks what is new.
#[utoipa::path(post, path = "/poll", operation_id = "poll", tag = "child protocol",
    params(("wait" = Option<String>, Query, description = "Answer as soon as an offer waits, at the latest after \
        this time: `30s`, `500ms`. Without it, or with an empty `id`, at once.")),
    request_body(content = Object, description = "`id` (empty: it wants one), `geographic_area` (GeoJSON Polygon or \
        MultiPolygon), `number_of_children`; newer children add `name`, `kind`, `capabilities`; managers add \
        `rm_ids` (themselves and the managers above them) and `held` (offers that they hold)."),
    responses(
        (status = 200, description = "`id`, and `new_release`: the first offer that waits, or empty; to \
            children that name features also `features`; to managers also `rm_ids`, `hold` and `questions`.",
            content_type = "application/json", body = Object),
        (status = 400, description = "Malformed, or no valid area. Only a child that says its `kind` may lack one; it \
            takes part only where a target has no area.", content_type = "text/plain", body = String),
        (status = 409, description = "A manager that is above this one.", content_type = "text/plain", body = String),
        (status = 429, description = "Too many ids that are not known here were brought along from the caller's \
            address and have taken part in nothing.", content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Wait(wait): Wait,
    CallerAddress(address): CallerAddress,
    headers: HeaderMap,
    body: Result<ChildBody<MAX_POLL_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    expect_json(&headers)?;
    let body = body?;
    let mut request = PollRequest::parse(&body.bytes)?;
    request.number_of_children = request.number_of_children.min(ctx.settings.max_agents);
    if request.kind.is_none() && area_of(&request).is_none() {
        return Err(Refused::bad(
            "`geographic_area` is missing: only a child that says its `kind` may lack one",
        ));
    }
    // Who asked before, and has lost the answer, is known.
    if request.id().is_empty()
        && let Some(nonce) = &request.nonce
    {
        let id = id_of_nonce(nonce)?;
        if ctx.view().children.with(id.as_str(), |_| ()).is_some() {
            request.id = Some(id.as_str().to_owned().into());
        }
    }
    if !is_open(&ctx) {
        // A child that asks for an id is the one whose token it has.
        if request.id().is_empty() {
            request.id = holder(&ctx, &headers).map(Into::into);
        }
        check_token(&ctx, &headers, request.id())?;
    }
    let manager = PollingManager::of(&request);
    let is_plain = is_plain(&request);
    let names_features = request.capabilities.as_ref().is_some_and(|has| !has.features.is_empty());
    if let Some(manager) = &manager {
        refuse_cycle(&ctx, manager)?;
    }
    let view = ctx.view();
    Stats::count(&view.stats.polls);
    let served_ms = ctx.served_ms();
    let quick = view.children.with(request.id(), |child| {
        child.touch(served_ms);
        from_view(&ctx, child, &request, address)
    });
    if !ctx.is_serving() {
        return Err(Refused::unavailable(&ctx));
    }
    let answered = if let Some(Some(answered)) = quick {
        answered
    } else {
        // In a box, as all that is rare: most polls carry nothing of it around.
        Box::pin(ask_and_check(&ctx, &request, address, served_ms)).await?
    };
    // What is said too often isn't stored yet: the next poll says it again, and so comes sooner.
    let is_known =
        view.children.with(request.id(), |child| says_nothing_new(child, &request)).unwrap_or(true);
    let wait = wait.map(|wait| if is_known { wait } else { wait.min(children::ONCE_IN) });
    let body = match wait {
        // Who asks for an id needs it now: a lost answer would leave a ghost.
        Some(wait) if !answered.offers && !request.id().is_empty() => {
            let id = request.id().to_owned();
            drop(request);
            drop((body, headers));
            let offer = Box::pin(until_offer(&ctx, &id, manager.as_ref(), wait)).await?;
            let offer = offer.as_deref().map(|offer| shown(&ctx, is_plain, offer)).unwrap_or_default();
            answer(&id, &offer)
        }
        _ => answered.body,
    };
    Ok(json(match manager {
        Some(manager) => Box::pin(for_manager(&ctx, &manager, &body)).await?,
        None if names_features => for_agent(body),
        None => body,
    }))
}

/// What the engine answers to a child that has something new to say, and whether it belongs here.
async fn ask_and_check(
    ctx: &Context,
    request: &PollRequest<'_>,
    address: Option<IpAddr>,
    served_ms: u64,
) -> Result<Answered, Refused> {
    let answered = ask(ctx, request, address, served_ms).await?;
    if let Some(own) = &ctx.settings.service_area {
        let area = request.geographic_area.map(serde_json::value::RawValue::get);
        own.check(request.id(), area, served_ms);
    }
    Ok(answered)
}

/// A manager that calls as a child.
#[derive(Debug)]
struct PollingManager {
    id: String,
    /// Offers that it holds, in order.
    held: Vec<String>,
    /// It answers questions.
    answers: bool,
}

impl PollingManager {
    /// Agents, and managers that say nothing of who they are, are `None`.
    fn of(request: &PollRequest<'_>) -> Option<Self> {
        let id = request.rm_ids.first()?.clone();
        let mut held = request.held.clone();
        held.sort_unstable();
        let answers = request.capabilities.as_ref().is_some_and(|has| has.has(FEATURE_QUESTIONS));
        Some(Self { id, held, answers })
    }
}

/// A manager that is above this one can't be below it too: offers would go round for ever.
fn refuse_cycle(ctx: &Context, manager: &PollingManager) -> Result<(), Refused> {
    let (own, lineage) = (ctx.view().kept.identity(), &ctx.view().lineage);
    if manager.id != own && !lineage.above().contains(&manager.id) {
        return Ok(());
    }
    if lineage.note_refused(&manager.id) {
        tracing::error!(
            manager = manager.id,
            "a manager that is above this one polls as its child; it is refused: change the `parent.url` of one of them"
        );
    }
    let text = format!("{} is this manager or above it, and can't be its child as well", manager.id);
    Err(Refused::new(StatusCode::CONFLICT, text))
}

fn unwritten(error: &dyn std::fmt::Display) -> Refused {
    tracing::error!(%error, "an answer could not be written");
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written".to_owned())
}

/// The plain answer, with what this manager understands beyond the plain protocol. Each poll of a newer agent comes this
/// way, so nothing is read and written again.
fn for_agent(mut plain: Vec<u8>) -> Vec<u8> {
    let [interim, values, groups] = AGENT_FEATURES;
    plain.truncate(plain.len() - ANSWER_END.len());
    let next = "\",\"";
    for part in [",\"features\":[\"", interim, next, values, next, groups, next, FEATURE_ROUTERS, "\"]}"] {
        plain.extend_from_slice(part.as_bytes());
    }
    plain
}

/// The plain answer, with what only managers understand.
async fn for_manager(ctx: &Context, manager: &PollingManager, plain: &[u8]) -> Result<Vec<u8>, Refused> {
    let answer = PollAnswer::parse(plain).map_err(|error| unwritten(&error))?;
    let (own, above) = (ctx.view().kept.identity(), ctx.view().lineage.above());
    let rm_ids = std::iter::once(own).chain(above.iter().map(String::as_str));
    let rm_ids = rm_ids.take(MAX_RM_IDS).map(str::to_owned).collect();
    let shows_undo = ctx.view().children.with(&answer.id, |child| {
        let turn = child.turn();
        let is_undo = matches!(turn.name.kind, OfferKind::Undo(_));
        (child.key, turn.mode == Mode::Rests || turn.mode == Mode::Offer && is_undo)
    });
    let hold = match shows_undo {
        // Its turn is that of the undo, and says nothing of what it has in hand beside it.
        Some((key, true)) => ctx.engine.read(PATIENCE, move |state| next_action::held(state, key)).await?,
        _ => held(ctx, &answer.id),
    };
    let key = shows_undo.filter(|_| manager.answers).map(|(key, _)| key);
    let questions = key.map(|key| questions(ctx, key)).unwrap_or_default();
    let of_managers = [
        FEATURE_QUESTIONS,
        FEATURE_RETRY,
        FEATURE_CLASSES,
        FEATURE_TRAFFIC,
        FEATURE_SERVICES,
        FEATURE_AGENTS,
        FEATURE_RUNS,
        FEATURE_PLACEMENTS,
    ];
    let features = of_managers.into_iter().chain(AGENT_FEATURES).map(str::to_owned).collect();
    serde_json::to_vec(&PollAnswer { rm_ids, hold, features, questions, ..answer })
        .map_err(|error| unwritten(&error))
}

/// What a manager is asked with this answer.
fn questions(ctx: &Context, key: ChildKey) -> Vec<QuestionForm> {
    let handed = ctx.view().questions.hand_out(key, MAX_QUESTIONS, MAX_QUESTION_BYTES);
    let question = |handed: QuestionLease| QuestionForm {
        id: handed.id,
        kind: handed.kind.to_owned(),
        within_ms: handed.within_ms,
        body: handed.body,
    };
    handed.into_iter().map(question).collect()
}

/// Offers that a child has in hand and whose release is paused.
fn held(ctx: &Context, id: &str) -> Vec<String> {
    let turn = ctx.view().children.with(id, ChildEntry::turn);
    let paused = turn.filter(|turn| matches!(turn.mode, Mode::InHand | Mode::Leads)).and_then(|turn| {
        let is_paused = ctx.view().releases.with(turn.release, ReleaseEntry::is_paused)?;
        is_paused.then(|| ctx.view().releases.offer_id(turn.release, turn.name))?
    });
    paused.into_iter().collect()
}

/// An answer to a poll.
struct Answered {
    body: Vec<u8>,
    /// Whether it names an offer.
    offers: bool,
}

impl Answered {
    fn nothing(id: &ChildId) -> Self {
        Self { body: answer(id.as_str(), ""), offers: false }
    }

    fn offer(id: &ChildId, offer: &str) -> Self {
        Self { body: answer(id.as_str(), offer), offers: true }
    }
}

async fn ask(
    ctx: &Context,
    request: &PollRequest<'_>,
    address: Option<IpAddr>,
    served_ms: u64,
) -> Result<Answered, Refused> {
    let area = match area_of(request) {
        Some(area) => survey::checked(ctx, request.id(), area).await?,
        None => None,
    };
    let view = ctx.view();
    let noted = view
        .children
        .with(request.id(), |child| if is_to_be_noted(child, served_ms) { address } else { child.address });
    let mut poll = read(request, area, noted.unwrap_or(address))?;
    poll.tenant = view.tokens.tenant_of(poll.child.as_ref().unwrap_or(&poll.fresh).as_str());
    let is_new = view.children.with(poll.child.as_ref().unwrap_or(&poll.fresh).as_str(), |_| ()).is_none();
    // Held until it is there, so that a tenant's children are never more than they may be.
    let _turn = match poll.tenant.as_ref().filter(|_| is_new) {
        Some(tenant) => Some(quota::for_child(ctx, tenant).await?),
        None => None,
    };
    let command = Command::Children(children::Command::Poll(poll));
    Stats::count(&view.stats.polls_by_engine);
    match ctx.engine.call(command, By::CHILD, PATIENCE).await? {
        Reply::Polled { child, offer, .. } => {
            let is_early = view.children.with(child.as_str(), |child| {
                child.touch(served_ms);
                early(ctx, child.key, &child.turn()).is_some()
            });
            let offer = offer.filter(|_| is_early != Some(true));
            let offer = offer.as_deref().map(|offer| shown(ctx, is_plain(request), offer));
            Ok(offer.map_or_else(|| Answered::nothing(&child), |offer| Answered::offer(&child, &offer)))
        }
        _ => Err(EngineError::Failed.into()),
    }
}

/// The first offer that comes to wait for a child within the wait. To a manager it is news as well that something of
/// what it has in hand is paused, or no longer, and that it is asked something.
async fn until_offer(
    ctx: &Context,
    id: &str,
    manager: Option<&PollingManager>,
    wait: Duration,
) -> Result<Option<String>, Refused> {
    let Some(mut waiting) = WaitingCall::begin(ctx, id, wait) else { return Ok(None) };
    loop {
        if manager.is_some_and(|manager| manager.held != held(ctx, id)) {
            return Ok(None);
        }
        let known = ctx.view().children.with(id, |child| (child.key, child.turn(), child.kind()));
        let Some((key, turn, kind)) = known else { return Ok(None) };
        let asked_again = match ctx.view().questions.next(key) {
            Next::Now if manager.is_some_and(|manager| manager.answers) => return Ok(None),
            Next::In(left) => Some(left),
            Next::Now | Next::Nothing => None,
        };
        let release = ctx.view().releases.get(turn.release);
        match turn.mode {
            Mode::Offer | Mode::Queued if let Some(left) = early(ctx, key, &turn) => {
                if !waiting.again_or(sleep(left)).await? {
                    return Ok(None);
                }
                continue;
            }
            Mode::Offer => return Ok(ctx.view().releases.offer_id(turn.release, turn.name)),
            Mode::Queued if let Some(release) = release => {
                let mut freed = pin!(release.pace.freed());
                freed.as_mut().enable();
                // It is given to whoever asks first.
                if release.pace.has_place()
                    && let Some(offer) = ask_for_place(ctx, id).await?
                {
                    return Ok(Some(offer));
                }
                if !waiting.again_or(freed).await? {
                    return Ok(None);
                }
                continue;
            }
            Mode::Rests => {
                if let Some(offer) = ask_for_place(ctx, id).await? {
                    return Ok(Some(offer));
                }
                if !waiting.again_or(sleep(ASKED_WHILE_IT_RESTS)).await? {
                    return Ok(None);
                }
                continue;
            }
            Mode::Idle | Mode::Queued | Mode::Leads => {}
            Mode::InHand if kind.is_manager() => {}
            // An agent that has something in hand and polls has lost it, and one that was taken for lost has to call
            // again: here the manager waits for the child's next call, not the other way round.
            Mode::InHand | Mode::Ask | Mode::Replaced => return Ok(None),
        }
        let asked_again = async {
            match asked_again {
                Some(left) => sleep(left).await,
                None => pending().await,
            }
        };
        if !waiting.again_or(asked_again).await? {
            return Ok(None);
        }
    }
}

/// What a child that waits for a place is offered if the engine gives it one. It polls as it did before.
async fn ask_for_place(ctx: &Context, id: &str) -> Result<Option<String>, Refused> {
    let Some(child) = ctx.view().children.get(id) else { return Ok(None) };
    let (area, agents) = (child.area.clone(), child.agents);
    let profile = child.profile.as_deref().cloned();
    let (id, address) = (child.id.clone(), child.address);
    let poll = Poll { child: Some(id.clone()), fresh: id, area, address, agents, profile, tenant: None };
    match ctx.engine.call(Command::Children(children::Command::Poll(poll)), By::CHILD, PATIENCE).await? {
        Reply::Polled { offer, .. } => Ok(offer),
        _ => Err(EngineError::Failed.into()),
    }
}

/// For how long yet a child is not to be shown what it is offered with many others.
fn early(ctx: &Context, child: ChildKey, turn: &Published) -> Option<Duration> {
    if matches!(turn.name.kind, OfferKind::Undo(_)) {
        return None;
    }
    let is_admitted = turn.mode == Mode::Offer;
    let served_ms = ctx.served_ms();
    let left = ctx
        .view()
        .releases
        .with(turn.release, |release| release.pace.early_ms(child, is_admitted, served_ms));
    left.flatten().map(Duration::from_millis)
}

/// The answer to a child that has nothing new to say, if the view knows it.
fn from_view(
    ctx: &Context,
    child: &ChildEntry,
    request: &PollRequest<'_>,
    address: Option<IpAddr>,
) -> Option<Answered> {
    if address.is_some() && address != child.address && is_to_be_noted(child, ctx.served_ms()) {
        return None;
    }
    if !says_nothing_new(child, request) {
        return None;
    }
    let turn = child.turn();
    match turn.mode {
        Mode::Idle | Mode::Leads => Some(Answered::nothing(&child.id)),
        Mode::Offer | Mode::Queued if early(ctx, child.key, &turn).is_some() => {
            Some(Answered::nothing(&child.id))
        }
        Mode::Offer => {
            let offer = ctx.view().releases.offer_id(turn.release, turn.name)?;
            Some(Answered::offer(&child.id, &shown(ctx, is_plain(request), &offer)))
        }
        Mode::InHand if child.kind().is_manager() => Some(Answered::nothing(&child.id)),
        Mode::Queued => {
            let has_place = ctx.view().releases.with(turn.release, |release| release.pace.has_place());
            (has_place == Some(false)).then(|| Answered::nothing(&child.id))
        }
        Mode::InHand | Mode::Ask | Mode::Replaced | Mode::Rests => None,
    }
}

/// Whether all that a child says of itself is known.
fn says_nothing_new(child: &ChildEntry, request: &PollRequest<'_>) -> bool {
    let same_area = match (request.geographic_area, &child.area) {
        (None, _) => true,
        (Some(sent), Some(known)) => sent.get() == known.as_ref(),
        (Some(_), None) => false,
    };
    same_area && request.number_of_children == child.agents && same_profile(child, request)
}

/// Whether it is time to note another address of a child. Behind some translations of addresses each call comes from
/// another one.
fn is_to_be_noted(child: &ChildEntry, served_ms: u64) -> bool {
    let every = ADDRESS_EVERY.as_millis() as u64;
    child.address.is_none() || served_ms >= child.address_noted().saturating_add(every)
}

/// The area that a poll reports.
fn area_of<'r>(request: &PollRequest<'r>) -> Option<&'r str> {
    request.geographic_area.map(serde_json::value::RawValue::get).filter(|text| *text != "null")
}

/// Whether a child says nothing of itself.
fn is_plain(request: &PollRequest<'_>) -> bool {
    request.name.is_none() && request.kind.is_none() && request.capabilities.is_none()
}

/// The id under which an offer is shown to a child.
fn shown<'o>(ctx: &Context, is_plain: bool, offer: &'o str) -> Cow<'o, str> {
    if is_plain { ctx.view().releases.secret_of(offer) } else { offer.into() }
}

fn same_profile(child: &ChildEntry, request: &PollRequest<'_>) -> bool {
    let is_plain = is_plain(request);
    match &child.profile {
        None => is_plain,
        Some(known) if !is_plain => {
            known.name.as_deref() == request.name.as_deref()
                && known.kind == request.kind.unwrap_or_default()
                && request.capabilities.as_ref().is_none_or(|sent| *sent == known.capabilities)
        }
        Some(_) => false,
    }
}

/// What a plain answer ends with.
const ANSWER_END: &str = "}\n";

fn answer(id: &str, offer: &str) -> Vec<u8> {
    // Both are ids of a narrow alphabet: nothing in them needs an escape. There is room for features.
    let mut body = Vec::with_capacity(id.len() + offer.len() + 72);
    for part in ["{\"id\":\"", id, "\",\"new_release\":\"", offer, "\"", ANSWER_END] {
        body.extend_from_slice(part.as_bytes());
    }
    body
}

#[expect(clippy::disallowed_methods, reason = "an id that nobody can guess needs the system's randomness")]
fn read(request: &PollRequest<'_>, area: Option<Arc<str>>, address: Option<IpAddr>) -> Result<Poll, Refused> {
    let child = match request.id() {
        "" => None,
        id => Some(ChildId::parse(id).map_err(|e| Refused::bad(format!("`id`: {e}")))?),
    };
    let plain = request.name.is_none() && request.kind.is_none() && request.capabilities.is_none();
    let profile = (!plain).then(|| Profile {
        name: request.name.as_deref().map(str::to_owned),
        kind: request.kind.unwrap_or_default(),
        capabilities: request.capabilities.clone().unwrap_or_default(),
    });
    let fresh = match &request.nonce {
        Some(nonce) => id_of_nonce(nonce)?,
        None => ChildId::parse(&Uuid::new_v4().to_string())
            .map_err(|e| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?,
    };
    let agents = request.number_of_children;
    Ok(Poll { child, fresh, area, address, agents, profile, tenant: None })
}
