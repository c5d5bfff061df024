//! Judgements, strata and evidence are stored as they are: each field and each variant has the name that it had. A variant
//! without a text here does not compile.

use analysis::{
    Assignment, Design, Deviation, End, Evidence, Judgement, Question, Rounding, RunVariation, Sample,
    Sampling, Spending, Stratum, Tolerance, Verdict, hypothesis::HypothesisKind,
};
use serde::{Serialize, de::DeserializeOwned};

/// Reads a text, and sees to it that it is written again as it was.
fn read<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
    value
}

/// One or more texts for each variant of an enum: the compiler names those that have none.
macro_rules! variants {
    ($enum:ty { $($variant:pat => [$($text:expr),+ $(,)?]),+ $(,)? }) => {{
        fn variant(value: &$enum) -> &'static str {
            match value {
                $($variant => stringify!($variant)),+
            }
        }
        for (expected, text) in [$($((stringify!($variant), $text)),+),+] {
            assert_eq!(variant(&read(text)), expected, "{text}");
        }
    }};
}

#[test]
fn every_variant_of_a_design_has_the_name_that_it_had() {
    variants!(Question {
        Question::Location => [r#""location""#],
        Question::Quantile(_) => [r#"{"quantile":0.99}"#],
        Question::Rate { .. } => [r#"{"rate":{"floor":0.01}}"#],
    });
    variants!(Deviation {
        Deviation::High => [r#""HIGH""#],
        Deviation::Low => [r#""LOW""#],
        Deviation::Either => [r#""EITHER""#],
    });
    variants!(Tolerance {
        Tolerance::Ratio(_) => [r#"{"ratio":0.05}"#],
        Tolerance::Shift(_) => [r#"{"shift":2.0}"#],
    });
    variants!(End {
        End::Once => [r#""once""#],
        End::After { .. } => [r#"{"after":{"durationMs":6,"intervalMs":2,"spending":"reserve"}}"#],
        End::Open { .. } => [r#"{"open":{"intervalMs":2}}"#],
    });
    variants!(Spending {
        Spending::Reserve => [r#""reserve""#],
        Spending::Linear => [r#""linear""#],
        Spending::OBrienFleming => [r#""oBrienFleming""#],
        Spending::Pocock => [r#""pocock""#],
    });
    variants!(Sampling {
        Sampling::Calls => [r#""calls""#],
        Sampling::Series => [r#""series""#],
    });
    variants!(RunVariation {
        RunVariation::Given(_) => [r#"{"given":0.03}"#],
        RunVariation::Windows(_) => [r#"{"windows":[1.0,2.0]}"#],
        RunVariation::Unknown => [r#""unknown""#],
    });
}

#[test]
fn every_variant_of_what_was_measured_and_found_has_the_name_that_it_had() {
    variants!(Sample {
        Sample::Values(_) => [r#"{"values":[1.0,-2.5]}"#],
        Sample::Histogram(_) => [
            r#"{"histogram":{"mapping":{"gamma":1.02,"indexOffset":0.0},"positiveValues":{"contiguousBinCounts":[1.0,2.0],"contiguousBinIndexOffset":3},"negativeValues":{"contiguousBinIndexOffset":0},"zeroCount":4.0}}"#,
        ],
        Sample::Measured(_) => [r#"{"measured":{"exact":[[15.0,3],[16.5,1]],"step":0.5,"rounding":"nearest"}}"#],
        Sample::Counts(_) => [r#"{"counts":{"calls":1,"events":2}}"#],
    });
    variants!(Rounding {
        Rounding::Nearest => [r#""nearest""#],
        Rounding::Down => [r#""down""#],
    });
    variants!(Assignment {
        Assignment::Call => [r#""call""#],
        Assignment::User => [r#""user""#],
        Assignment::Child => [r#""child""#],
    });
    variants!(Verdict {
        Verdict::Pass => [r#""pass""#],
        Verdict::Fail => [r#""fail""#],
        Verdict::Inconclusive => [r#""inconclusive""#],
        Verdict::NoData => [r#""noData""#],
        Verdict::Error => [r#""error""#],
    });
    variants!(HypothesisKind {
        HypothesisKind::Rank => [r#""rank""#],
        HypothesisKind::Rest => [r#""rest""#],
        HypothesisKind::NonZero => [r#""nonZero""#],
        HypothesisKind::Tail { .. } => [r#"{"tail":{"q":0.99}}"#],
        HypothesisKind::Rate => [r#""rate""#],
    });
}

const DESIGN: &str = r#"{"question":"location","deviation":"HIGH","tolerance":{"ratio":0.05},"alpha":0.05,"end":{"after":{"durationMs":6,"intervalMs":2,"spending":"pocock"}},"sampling":"calls","runVariation":{"given":0.03},"reserve":0.1,"early":0.3}"#;

const SUMS: &str = r#"{"baseline":1.0,"canary":2.0,"s":3.0,"v":4.0,"k":5.0,"placement":6.0,"proxy":7.0}"#;

/// A hypothesis, with what may be absent of it between the other fields and behind them.
fn hypothesis(clusters: &str, last: &str) -> String {
    let lattice = r#"{"pmf":[1.0]}"#;
    let rates = format!(
        r#"{{"sums":{SUMS},"baseline":{{"calls":1,"events":2}},"canary":{{"calls":3,"events":4}},"events":5,"canary_events":6,"ln_least":[-1.0,-2.0],"lattice":{lattice},"share":0.5,"shares_differ":true}}"#
    );
    let bounds = r#"[{"information":1.0,"spent":2.0,"z":3.0},{"information":4.0,"spent":5.0}]"#;
    format!(
        r#"{{"kind":"rank","high":true,"tolerance":{{"ratio":0.05}},"alpha":0.05,"taken":1,"groups":2,"sums":{SUMS},"lnWays":8.0,"exact":[9.0,10.0],"lattice":{lattice},"beyond":11,"rates":{rates},{clusters}"rho":12.0,"bounds":{bounds},"crossed":true{last}}}"#
    )
}

#[test]
fn every_field_of_a_judgement_has_the_name_that_it_had() {
    let bound = r#"[{"information":1.0,"spent":2.0}]"#;
    let clusters = r#""clusters":{"groups":[{"group":1,"score":2.0,"calls":[3.0,4.0]}],"variance":4.0},"#;
    let passing = format!(
        r#""passing":{{"bounds":{bound},"crosses":true,"boundsOfFloor":{bound},"isBelowFloor":true}}"#
    );
    let plain = hypothesis("", "");
    let full = hypothesis(clusters, &format!(r#",{passing},"strict":{plain},"errors":13.0"#));
    let step = r#"{"divisor":0.5,"largest":1.0,"distinct":[1.5],"fine":true}"#;
    let split = r#"{"share":0.5,"baseline":1,"canary":2,"groups":[[3,[4,5]]]}"#;
    let text = format!(
        r#"{{"design":{DESIGN},"hypotheses":[{full},{plain}],"steps":[{step},{step}],"seen":1,"splits":[{split}],"children":[[1.0,2.0,3.0,4.0,5.0]],"dispersion":[9.0,-1.0,0.5,0.25,0.0,1.5,2.0,0.75,-3.0,40.0],"looks":2,"intervals":3,"spent":0.01,"verdict":"pass","early":true,"extension":{{"rho":[1.0]}}}}"#
    );
    let judgement: Judgement = read(&text);
    assert_eq!((judgement.verdict(), judgement.design()), (Some(Verdict::Pass), &read::<Design>(DESIGN)));
}

#[test]
fn every_field_of_a_stratum_has_the_name_that_it_had() {
    let sides = r#""baseline":{"counts":{"calls":1,"events":2}},"canary":{"counts":{"calls":3,"events":4}}"#;
    let full: Stratum = read(&format!(
        r#"{{"stage":"s","canaryShare":0.5,"calls":[5,6],"assignment":"user","group":7,"interval":8,{sides}}}"#
    ));
    assert_eq!((full.group, full.calls), (Some(7), Some([5, 6])));
    let bare: Stratum = read(&format!(r#"{{"stage":"s","interval":8,{sides}}}"#));
    assert_eq!((bare.group, bare.assignment), (None, Assignment::Call));
}

#[test]
fn every_field_of_evidence_has_the_name_that_it_had() {
    let side = r#"{"count":1,"mean":2.0,"p50":3.0,"p95":4.0,"p99":5.0,"events":6,"rate":0.5}"#;
    let effect = r#"{"estimate":1.5,"low":1.0,"high":2.0,"error":0.5,"confidence":0.9,"superiority":0.6,"relative":true}"#;
    let test = r#"{"name":"n","z":1.0,"boundary":2.0,"p":0.5,"pPass":0.25,"level":0.05,"passLevel":0.04,"information":3.0,"crossed":true}"#;
    let open = r#"{"name":"n","z":1.0,"boundary":null,"p":0.5,"pPass":0.25,"level":null,"information":3.0,"crossed":false}"#;
    let split = r#"{"share":0.5,"baseline":1,"canary":2}"#;
    let off = format!(
        r#"{{"eValue":1.0,"threshold":2.0,"splits":[{split}],"between":{{"children":9,"eValue":0.5}},"children":[{{"child":"c","split":{split},"z":3.0}}]}}"#
    );
    let between = r#"{"children":7,"effective":6.5,"deviation":0.1}"#;
    let full: Evidence = read(&format!(
        r#"{{"sentence":"s","baseline":{side},"canary":{{"count":0}},"effect":{effect},"tests":[{test},{open}],"looks":1,"plannedLooks":2,"early":true,"belowFloor":{{"floor":0.01,"atMost":0.005}},"alpha":0.05,"alphaSpent":0.01,"moreCalls":3,"children":{between},"split":{off}}}"#
    ));
    assert_eq!(full.tests.len(), 2);
    let bare = r#"{"sentence":"s","baseline":{"count":0},"canary":{"count":0},"tests":[],"looks":0,"alpha":0.05,"alphaSpent":0.0}"#;
    assert_eq!(read::<Evidence>(bare).effect, None);
}
