//! What is told of the times of calls, in the form that the manager reads.

use analysis::Values;
use protocol::{HistogramForm, StratumForm};

/// Times of successful calls, exactly or as a histogram.
pub type TimesTold = (Option<Box<Values>>, Option<HistogramForm>);

/// Of base and new version: calls and errors, and the times of the others.
pub fn stratum_of_both(
    [[f1_calls, f1_errors], [f2_calls, f2_errors]]: [[u64; 2]; 2],
    [(f1_values, f1_histogram), (f2_values, f2_histogram)]: [TimesTold; 2],
) -> StratumForm {
    StratumForm {
        f1_calls: Some(f1_calls),
        f2_calls: Some(f2_calls),
        f1_errors: Some(f1_errors),
        f2_errors: Some(f2_errors),
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        ..StratumForm::default()
    }
}
