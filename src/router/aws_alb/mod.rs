//! An AWS Application Load Balancer, by rules of its listeners; what an operator sets up for it stands in `docs/aws-alb.md`.
//!
//! Compiled with the feature `aws`; without it there is what is set, and what says how the feature is had.

#[cfg(feature = "aws")]
mod adopt;
#[cfg(feature = "aws")]
mod api;
#[cfg(feature = "aws")]
mod lead;
mod options;
#[cfg(feature = "aws")]
pub mod rule;
#[cfg(feature = "aws")]
pub mod weights;

#[cfg(feature = "aws")]
pub use self::lead::{AwsAlb, Settings};
pub use self::options::{IS_BUILT_IN, Options};

/// As errors name it.
#[cfg(feature = "aws")]
const NAME: &str = "the AWS ALB";
