//! What a fleet measured, from reports of children to a verdict.

use choirmaster::{
    analysis::{
        Design, Finding, Histogram, Judgement, Occasion, Question, Tolerance, Verdict, values::GAMMA,
    },
    model::StageStatus,
    release::{
        manager::Agents,
        measured::judged,
        strata::Strata,
        summary::{Reported, Summary},
    },
    strategy::{Stage, analysis::ChildMetric, check_stored},
};

use super::world::summary;
use crate::analysis::random::Random;

/// A stage that gives the new version half of the calls.
fn stage() -> Stage {
    let text = include_str!("../../../releases/canary.yml");
    let stage = check_stored(text).strategy.unwrap().stages.into_iter().next().unwrap();
    Stage { new_traffic: 50, ..stage }
}

/// An agent with some calls, of which one in a thousand fails.
fn agent(share: f64, calls: u64, random: &mut Random) -> Summary {
    let (mut counts, mut errors) = ([0; 2], [0; 2]);
    let mut times = [(); 2].map(|()| Histogram::new(GAMMA).unwrap());
    for _ in 0..calls {
        let side = usize::from(random.chance(share));
        counts[side] += 1;
        if random.chance(0.001) {
            errors[side] += 1;
        } else {
            times[side].record(20.0 * random.log_normal(0.3)).unwrap();
        }
    }
    let [base, new] = times.map(|side| Some(Box::new(Reported::Sketch(side))));
    Summary {
        f1_calls: Some(counts[0]),
        f2_calls: Some(counts[1]),
        f1_errors: Some(errors[0]),
        f2_errors: Some(errors[1]),
        f1_histogram: base,
        f2_histogram: new,
        ..summary("", StageStatus::Completed)
    }
}

/// What a manager tells of its children, as it is written and read.
fn manager(children: &[Summary]) -> Summary {
    let strata = Strata::of(children, 50).told();
    let sum = Summary { strata, agents: Some(Agents::default()), ..summary("", StageStatus::Completed) };
    serde_json::from_str(&sum.keep().json).unwrap()
}

/// Two levels up.
fn tree(agents: &[Summary]) -> Vec<Summary> {
    let managers: Vec<Summary> = agents.chunks(50).map(manager).collect();
    managers.chunks(5).map(manager).collect()
}

fn judge(summaries: &[Summary], of: ChildMetric) -> Finding {
    let mut design = Design::new(Tolerance::Ratio(0.05));
    if of == ChildMetric::ErrorRate {
        design.question = Question::Rate { floor: 0.005 };
    }
    let strata = judged(&stage(), &Strata::of(summaries, 50), of);
    Judgement::new(design).unwrap().look(&strata, 0, Occasion::Last)
}

#[test]
fn of_good_releases_of_a_thousand_children_with_some_errors_none_is_paused_for_its_split() {
    let mut random = Random::new(20);
    for _ in 0..14 {
        let agents: Vec<Summary> = (0..1_000).map(|_| agent(0.5, 20, &mut random)).collect();
        for reports in [&tree(&agents), &agents] {
            for of in [ChildMetric::ResponseTime, ChildMetric::ErrorRate] {
                let found = judge(reports, of);
                let split = found.evidence.split.unwrap();
                assert!(split.e_value < split.threshold, "{split:?}");
                assert_eq!(found.verdict, Some(Verdict::Pass), "{}", found.evidence.sentence);
            }
        }
    }
}

#[test]
fn a_fleet_that_gives_the_new_version_more_calls_than_ordered_is_found_out() {
    let mut random = Random::new(21);
    let agents: Vec<Summary> = (0..1_000).map(|_| agent(0.55, 20, &mut random)).collect();
    for of in [ChildMetric::ResponseTime, ChildMetric::ErrorRate] {
        let found = judge(&tree(&agents), of);
        assert_eq!(found.verdict, Some(Verdict::Inconclusive));
        assert!(found.evidence.sentence.contains("50 % that was ordered"), "{}", found.evidence.sentence);
    }
}
