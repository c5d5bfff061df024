//! The manager, as the agent calls it: the child protocol, with what newer managers add to it.
//!
//! - Each call is made once. Whether it is made again, and when, is the caller's to say: [`LinkError::passes`] tells where that
//!   may help.
//! - Functions are downloaded to a file, so that what has come is not lost when the line breaks or the agent is started again.
//!
//! What a manager understands beyond the plain protocol it says in its answers to polls; until it has, it is told nothing of that.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;

use child_client::{Caller, MAX_ANSWER_BYTES, Span};
use language::MAX_STRATEGY_BYTES;
use model::{
    Capabilities, ChildKind, FEATURE_FLOWS, FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_ROUTERS, FEATURE_RUNS,
    FEATURE_SHARES, FEATURE_TOGETHER, FEATURE_VALUES, FEATURE_WINNER, Leads, NodeCapabilities,
};
use protocol::{
    PollAnswer, PollRequest,
    child::{EndStageAnswer, EndStageRequest, JoinAnswer, JoinRequest, ManagerTime, StageSummary},
    placements::{MAX_PLACEMENTS_ANSWER_BYTES, PlacementsAnswer, PlacementsRequest},
    traffic::{TrafficAnswer, TrafficRequest},
};

pub use child_client::{InProcess, LinkError, Settings};

use crate::measure::Reads;

/// Largest archive, in bytes: what a manager packs with its usual limits, and as much again.
const MAX_ARCHIVE_BYTES: u64 = 128 * 1024 * 1024;

/// Longest id or token of a child that is kept, in bytes.
const MAX_JOINED_BYTES: usize = 512;

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Shown at the manager.
    pub name: Option<String>,
    /// Where it is: a Polygon or a `MultiPolygon` of GeoJSON, as text.
    pub area: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// The forms of functions that it can run.
    pub runtimes: Vec<String>,
    /// The kinds of routers that it leads.
    pub routers: Vec<String>,
    /// What functions of workflows find on its machine, where these may be placed there.
    pub node: Option<NodeCapabilities>,
    /// Random, and kept: by this the manager knows again who asks once more for an id or a token, since an answer was lost.
    pub nonce: Option<String>,
}

/// The answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollResponse {
    /// What the agent is called from now on.
    pub id: String,
    /// The first offer that waits for it.
    pub offer: Option<String>,
}

/// Who the agent is at its manager, once it has joined.
#[derive(Clone, PartialEq, Eq)]
pub struct Joined {
    pub id: String,
    /// Proves it from then on; a secret.
    pub token: String,
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The manager. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Manager(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    caller: Caller,
    reads: Mutex<Reads>,
    hears_of_routers: AtomicBool,
}

impl Manager {
    /// Reads the files that the settings name; blocks meanwhile. `token` is the agent's own, once it has one.
    pub fn new(settings: &Settings, token: Option<String>) -> Result<Self, LinkError> {
        Ok(Self::by(Caller::new(settings, token)?))
    }

    /// A manager in the same process, and the token that the agent shows it.
    pub fn in_process(manager: Arc<dyn InProcess>, token: String) -> Result<Self, LinkError> {
        Ok(Self::by(Caller::in_process(manager, Some(token))?))
    }

    fn by(caller: Caller) -> Self {
        Self(Arc::new(Inner { caller, reads: Mutex::default(), hears_of_routers: AtomicBool::default() }))
    }

    /// What the calls from now on show.
    pub fn set_token(&self, token: Option<String>) {
        self.0.caller.set_token(token);
    }

    /// What the manager said at the last poll that it reads; nothing before the first.
    pub fn reads(&self) -> Reads {
        *self.0.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the manager said at the last poll that it hears what routers do; false before the first.
    pub fn hears_of_routers(&self) -> bool {
        self.0.hears_of_routers.load(Ordering::Relaxed)
    }

    /// Says where the agent is and what it can run, and asks what is new. The manager may wait for news, if it knows of waiting. Without
    /// an id the agent is given one, at once.
    pub async fn poll(
        &self,
        id: Option<&str>,
        about: &About,
        wait: Duration,
    ) -> Result<PollResponse, LinkError> {
        let area = about.area.as_deref().map(serde_json::from_str::<&RawValue>).transpose();
        let area =
            area.map_err(|error| LinkError::Settings(format!("the agent's area is no JSON: {error}")))?;
        let request = PollRequest {
            geographic_area: area,
            id: id.map(Cow::Borrowed),
            name: about.name.as_deref().map(Cow::Borrowed),
            nonce: about.nonce.as_deref().filter(|_| id.is_none()).map(Cow::Borrowed),
            kind: Some(ChildKind::Agent),
            capabilities: Some(capabilities(about)),
            ..PollRequest::default()
        };
        let answer = self.0.caller.poll(&request, Some(wait), MAX_ANSWER_BYTES).await?;
        let answer = PollAnswer::parse(&answer).map_err(|error| LinkError::Nonsense(error.to_string()))?;
        *self.0.reads.lock().unwrap_or_else(PoisonError::into_inner) = read_by(&answer);
        let hears = answer.features.iter().any(|known| known == FEATURE_ROUTERS);
        self.0.hears_of_routers.store(hears, Ordering::Relaxed);
        Ok(PollResponse {
            offer: (!answer.new_release.is_empty()).then(|| answer.new_release.into_owned()),
            id: answer.id.into_owned(),
        })
    }

    /// The text of an offer.
    pub async fn release(&self, id: &str, offer: &str) -> Result<String, LinkError> {
        let text = self.0.caller.release(id, offer, MAX_STRATEGY_BYTES).await?;
        String::from_utf8(text).map_err(|_| LinkError::Nonsense("an offer that is no UTF-8".to_owned()))
    }

    /// Downloads the functions of an offer, a zip, to the file `into`, which is there when this returns well, and survives a power loss.
    ///
    /// Until it is whole it is kept beside it, as `into` with `.part` behind its name; who asks again goes on from there, if the manager
    /// still has the same. One download a file at a time.
    pub async fn functions(&self, id: &str, offer: &str, into: &Path) -> Result<(), LinkError> {
        child_client::download(&self.0.caller, id, offer, into, MAX_ARCHIVE_BYTES).await
    }

    /// Reports one stage; `next` is the stage that follows it, empty for none. Answered with the manager's time where the stage goes on.
    pub async fn result(
        &self,
        id: &str,
        offer: &str,
        summary: &StageSummary,
        next: &str,
    ) -> Result<Option<ManagerTime>, LinkError> {
        self.0.caller.result(id, offer, summary.clone(), Some(next)).await
    }

    /// Asks whether a stage may end, whether all is to be taken back, which stages are to be passed over, and what variations get in others.
    /// The manager may wait for news, but for those of the stages that are known to be `skipped`, and of the `shares` that are known.
    pub async fn end_stage(
        &self,
        id: &str,
        offer: &str,
        stage: &str,
        (skipped, shares): (Vec<String>, BTreeMap<String, u16>),
        wait: Duration,
    ) -> Result<EndStageAnswer, LinkError> {
        let request = EndStageRequest {
            id: id.into(),
            stage_name: stage.into(),
            strategy_id: offer.into(),
            skipped,
            shares,
            failures: None,
        };
        self.0.caller.end_stage(&request, Some(wait)).await
    }

    /// Says what the router does, and is answered what operators ask of it. The manager may wait for orders.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub async fn traffic(
        &self,
        told: &TrafficRequest<'_>,
        wait: Duration,
    ) -> Result<TrafficAnswer, LinkError> {
        let answer = self.0.caller.traffic(told, Some(wait), MAX_ANSWER_BYTES).await?;
        TrafficAnswer::parse(&answer).map_err(|error| LinkError::Nonsense(error.to_string()))
    }

    /// Says what runs of what is placed here, and is answered what is to run. The manager may wait for something else to be placed.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub async fn placements(
        &self,
        told: &PlacementsRequest,
        wait: Duration,
    ) -> Result<PlacementsAnswer, LinkError> {
        let answer = self.0.caller.placements(told, Some(wait), MAX_PLACEMENTS_ANSWER_BYTES).await?;
        PlacementsAnswer::parse(&answer).map_err(|error| LinkError::Nonsense(error.to_string()))
    }

    /// Becomes a child of the manager, with a token that opens the door for that and nothing else. The token that is answered is not used by
    /// itself: it is to be on disk first, then [`Manager::set_token`] takes it.
    pub async fn join(&self, join_token: &str, about: &About) -> Result<Joined, LinkError> {
        let text = |text: &'_ Option<String>| text.clone().map(Cow::Owned);
        let request =
            JoinRequest { name: text(&about.name), kind: ChildKind::Agent, nonce: text(&about.nonce) };
        let request = self.0.caller.post(&["join"], &request);
        let answer =
            self.0.caller.send_with(request, Span::Short, MAX_ANSWER_BYTES, Some(join_token)).await?;
        // What can't be read may hold a token: the error doesn't quote it.
        let JoinAnswer { id, token } = serde_json::from_slice(&answer)
            .map_err(|_| LinkError::Nonsense("no id and token for who joins".to_owned()))?;
        let fits = |text: &str| {
            !text.is_empty()
                && text.len() <= MAX_JOINED_BYTES
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if fits(&id) && fits(&token) {
            Ok(Joined { id, token })
        } else {
            Err(LinkError::Nonsense("an id or a token that can't be used".to_owned()))
        }
    }
}

fn capabilities(about: &About) -> Capabilities {
    Capabilities {
        runtimes: Some(about.runtimes.clone()),
        labels: about.labels.clone(),
        features: [
            FEATURE_INTERIM,
            FEATURE_VALUES,
            FEATURE_GROUPS,
            FEATURE_ROUTERS,
            FEATURE_WINNER,
            FEATURE_SHARES,
            FEATURE_FLOWS,
            FEATURE_RUNS,
            FEATURE_TOGETHER,
        ]
        .map(str::to_owned)
        .into(),
        leads: Leads::Whole,
        routers: about.routers.clone(),
        node: about.node.clone().map(Box::new),
        ..Capabilities::default()
    }
}

fn read_by(answer: &PollAnswer<'_>) -> Reads {
    let knows = |feature: &str| answer.features.iter().any(|known| known == feature);
    Reads { values: knows(FEATURE_VALUES), groups: knows(FEATURE_GROUPS) }
}
