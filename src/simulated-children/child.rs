//! What both kinds of simulated children do in the same way: calls, waiting, and the numbers of a stage.

use std::{collections::BTreeMap, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use hyper::StatusCode;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    calls::{Behaviour, StageCalls},
    client::{Client, Origin, RequestError, Response},
    config::FleetConfig,
    machine::{Machine, Role},
    offer::{Function, Offer, OfferStage},
    report::{Board, Exit, Phase},
    summary::Reads,
};
use model::{FEATURE_GROUPS, FEATURE_VALUES};
use protocol::{
    EndStageAnswer, EndStageRequest, ManagerTime, PollAnswer, PollRequest, ResultRequest, StageSummary,
};

/// Longest text of an error answer that is kept, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// How a child's process ends.
#[derive(Debug)]
pub enum ProcessEnd {
    /// By itself, for good.
    Exit(Exit),
    /// It dies and is started again.
    Crash,
}

/// A running child process.
#[derive(Debug)]
pub struct SimulatedChild<'a> {
    pub index: usize,
    pub config: &'a FleetConfig,
    pub machine: &'a mut Machine,
    pub board: &'a Board,
    /// In memory only: gone with the process.
    pub id: String,
    /// What the manager said that it reads.
    pub reads: Reads,
    client: Client,
    /// Draws the simulated calls and nothing else, so that faults don't change the numbers.
    call_rng: StdRng,
    fate_rng: StdRng,
}

/// A random source of its own for each child, process and purpose.
fn rng(seed: u64, index: usize, restarts: u64, purpose: u64) -> StdRng {
    let mut bytes = [0; 32];
    for (part, number) in bytes.chunks_exact_mut(8).zip([seed, index as u64, restarts, purpose]) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    StdRng::from_seed(bytes)
}

impl<'a> SimulatedChild<'a> {
    pub fn new(
        index: usize,
        config: &'a FleetConfig,
        origin: Arc<Origin>,
        board: &'a Board,
        machine: &'a mut Machine,
    ) -> Self {
        let (seed, restarts) = (config.seed, machine.restarts);
        Self {
            index,
            config,
            machine,
            board,
            id: String::new(),
            reads: Reads::default(),
            client: Client::new(origin),
            call_rng: rng(seed, index, restarts, 1),
            fate_rng: rng(seed, index, restarts, 2),
        }
    }

    /// Lets an amount of the child's own time pass.
    pub async fn pause(&self, time: Duration) {
        tokio::time::sleep(self.config.real(time)).await;
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.fate_rng.random_bool(share.clamp(0.0, 1.0))
    }

    fn count(&mut self, answer: &Result<Response, RequestError>) {
        self.board.calls.fetch_add(1, Relaxed);
        match answer {
            Ok(answer) => {
                self.board.answers.fetch_add(1, Relaxed);
                self.board.refusals.fetch_add(u64::from(answer.status != StatusCode::OK), Relaxed);
            }
            Err(error) => self.board.unanswered(error),
        }
    }

    fn may_crash(&mut self) -> Result<(), ProcessEnd> {
        if self.chance(self.config.faults.crash) { Err(ProcessEnd::Crash) } else { Ok(()) }
    }

    /// `target` is not escaped.
    pub async fn get(&mut self, target: &str) -> Result<Result<Response, RequestError>, ProcessEnd> {
        self.may_crash()?;
        let answer = self.client.get(target).await;
        self.count(&answer);
        Ok(answer)
    }

    /// The answer's body where the status is 200, else what to say about it.
    pub async fn get_ok(&mut self, target: &str) -> Result<Result<bytes::Bytes, String>, ProcessEnd> {
        Ok(match self.get(target).await? {
            Ok(answer) if answer.status == StatusCode::OK => Ok(answer.body),
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body);
                let line: String =
                    text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED_CHARS).collect();
                Err(format!("{}: {line}", answer.status.as_u16()))
            }
            Err(error) => Err(error.to_string()),
        })
    }

    async fn post(
        &mut self,
        target: &str,
        form: &impl serde::Serialize,
    ) -> Result<Option<Response>, ProcessEnd> {
        self.may_crash()?;
        let Ok(body) = serde_json::to_vec(form) else { return Ok(None) };
        let answer = self.client.post(target, body).await;
        self.count(&answer);
        Ok(answer.ok())
    }

    /// The body of the answer to a poll, `None` when it failed. `target` is `/poll`, with or without a wait.
    pub async fn poll(
        &mut self,
        target: &str,
        request: &PollRequest<'_>,
    ) -> Result<Option<(String, String)>, ProcessEnd> {
        self.board.polls.fetch_add(1, Relaxed);
        let answer = self.post(target, request).await?.filter(|answer| answer.status == StatusCode::OK);
        Ok(answer.and_then(|answer| {
            let answer: PollAnswer = serde_json::from_slice(&answer.body).ok()?;
            let reads = |feature: &str| answer.features.iter().any(|read| read == feature);
            self.reads = Reads { values: reads(FEATURE_VALUES), groups: reads(FEATURE_GROUPS) };
            Some((answer.id.into_owned(), answer.new_release.into_owned()))
        }))
    }

    /// Keeps the id a poll was answered with.
    pub fn keep_id(&mut self, id: String) {
        if self.machine.ids.last() != Some(&id) {
            self.machine.ids.push(id.clone());
        }
        self.id = id;
    }

    /// Sends a result; the status of the answer, `None` without one.
    pub async fn report(
        &mut self,
        offer: &Offer,
        summary: StageSummary,
        next_stage: &str,
    ) -> Result<Option<StatusCode>, ProcessEnd> {
        let request = ResultRequest {
            id: self.id.clone().into(),
            release_id: offer.id.as_str().into(),
            stage_summaries: vec![summary],
            next_stage: Some(next_stage.into()),
        };
        Ok(self.post("/result", &request).await?.map(|answer| answer.status))
    }

    /// Sends a result of a stage that goes on, once; what was answered, if it was taken.
    pub async fn report_so_far(
        &mut self,
        offer: &Offer,
        summary: StageSummary,
    ) -> Result<Option<ManagerTime>, ProcessEnd> {
        let request = ResultRequest {
            id: self.id.clone().into(),
            release_id: offer.id.as_str().into(),
            stage_summaries: vec![summary],
            next_stage: None,
        };
        let answer = self.post("/result", &request).await?.filter(|answer| answer.status == StatusCode::OK);
        Ok(answer.and_then(|answer| serde_json::from_slice(&answer.body).ok()))
    }

    /// Asks for the end of a stage; what can't be understood is a no. `target` is `/end_stage`, with or without a wait; `skipped`:
    /// the stages of which it knows that they are passed over.
    pub async fn ask_end(
        &mut self,
        target: &str,
        offer: &Offer,
        stage: &OfferStage,
        skipped: &[String],
    ) -> Result<EndStageAnswer, ProcessEnd> {
        let request = EndStageRequest {
            id: self.id.clone().into(),
            strategy_id: offer.id.as_str().into(),
            stage_name: stage.name.as_str().into(),
            skipped: skipped.to_vec(),
            // It leads no services, whose shares alone change.
            shares: BTreeMap::new(),
            failures: None,
        };
        let answer = self.post(target, &request).await?.filter(|answer| answer.status == StatusCode::OK);
        let answer = answer.and_then(|answer| serde_json::from_slice(&answer.body).ok());
        Ok(answer.unwrap_or_default())
    }

    /// The calls of a stage. Its base version is that of `base_of`, its new one that of `new_of`: two functions
    /// only where an agent mixes them up. A version that is removed fails every call.
    pub fn calls(&self, stage: &OfferStage, base_of: &Function, new_of: &Function) -> StageCalls {
        let traffic = &self.config.traffic;
        let behaviour = |function: &Function, role, ordinary| {
            self.machine
                .version(&function.name, role)
                .map_or(Behaviour::DELETED, |path| traffic.behaviour(path, ordinary))
        };
        StageCalls::new(
            behaviour(base_of, Role::Base, traffic.base),
            behaviour(new_of, Role::New, traffic.new),
            stage.new_traffic as f64 / 100.0,
            traffic.calls_per_second,
        )
    }

    /// Waits, while the stage's calls go on.
    pub async fn wait_with_calls(&mut self, time: Duration, calls: &mut StageCalls) {
        self.pause(time).await;
        calls.advance(time, &mut self.call_rng);
    }

    /// The stage's calls that were made in a time that has passed already.
    pub fn make_calls_of(&mut self, time: Duration, calls: &mut StageCalls) {
        calls.advance(time, &mut self.call_rng);
    }

    /// Makes one version answer the callers, as a roll-out and a roll-back do.
    pub async fn settle(&mut self, function: &Function, role: Role) {
        self.pause(self.config.cleanup).await;
        self.machine.settle(function, role);
        self.board.rolled_out(self.index, self.machine.runs_new());
    }

    pub fn phase(&self, phase: Phase) {
        self.board.phase(self.index, phase);
    }

    /// An offer is over, in whatever way.
    pub fn offer_over(&mut self) {
        self.machine.offers_run += 1;
        self.board.done(self.index);
        self.phase(Phase::Polling);
    }
}
