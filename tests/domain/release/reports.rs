//! What a child says, as it is handed to the domain and as it goes up: in the words of the wire, which a parent reads.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use domain::release::summary::{Histogram, Received, Reported, Stratum, Summary};
use protocol::{
    HistogramForm, StratumForm,
    child::{Buckets, StageSummary},
};

/// A summary as it comes to the domain: with a digest that tells it from others, as that of its text does.
pub fn received(summary: Summary) -> Arc<Received> {
    let text = format!("{:?}", Summary { stage_name: None, says_next: None, ..summary.clone() });
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let digest = hasher.finish();
    Arc::new(Received { summary, text, digest })
}

/// How much text a stratum is.
pub fn bytes(stratum: &Stratum) -> usize {
    text(stratum).len()
}

pub fn text(stratum: &Stratum) -> String {
    serde_json::to_string(&written(stratum.clone())).unwrap()
}

/// A stratum as a parent reads it.
pub fn read(text: &str) -> Stratum {
    let StratumForm {
        split,
        interval,
        assignment,
        group,
        class,
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
    } = serde_json::from_str(text).unwrap();
    Stratum {
        split,
        interval,
        assignment,
        group,
        class,
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram: f1_histogram.map(|form| Box::new(times(form))),
        f2_histogram: f2_histogram.map(|form| Box::new(times(form))),
        f1_values,
        f2_values,
    }
}

/// What a manager says of its children as it is written and read again: strata, and how the children differ.
pub fn again(sum: Summary) -> Summary {
    let strata = sum.strata.iter().map(|stratum| read(&text(stratum))).collect();
    let form = StageSummary { effects: sum.effects, ..StageSummary::without_calls(sum.status) };
    let form: StageSummary = serde_json::from_str(&serde_json::to_string(&form).unwrap()).unwrap();
    Summary { strata, effects: form.effects, ..sum }
}

fn written(stratum: Stratum) -> StratumForm {
    let Stratum {
        split,
        interval,
        assignment,
        group,
        class,
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
    } = stratum;
    StratumForm {
        split,
        interval,
        assignment,
        group,
        class,
        f1_calls,
        f2_calls,
        f1_errors,
        f2_errors,
        f1_histogram: f1_histogram.map(|times| form(*times)),
        f2_histogram: f2_histogram.map(|times| form(*times)),
        f1_values,
        f2_values,
    }
}

fn form(times: Reported) -> HistogramForm {
    match times {
        Reported::Sketch(sketch) => HistogramForm::Sketch(sketch),
        Reported::Bounds(Histogram { bounds_ms, counts }) => {
            HistogramForm::Bounds(Buckets { bounds_ms, counts })
        }
    }
}

fn times(form: HistogramForm) -> Reported {
    match form {
        HistogramForm::Sketch(sketch) => Reported::Sketch(sketch),
        HistogramForm::Bounds(Buckets { bounds_ms, counts }) => {
            Reported::Bounds(Histogram { bounds_ms, counts })
        }
    }
}
