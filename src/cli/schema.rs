//! `choirmaster schema`: the JSON Schema of the strategy language, for editors; and what Kubernetes is told of manifests.

use std::io::{self, Write};

use canary_releases::crd;
use language::schema;

/// Print the JSON Schema of a release strategy.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the CustomResourceDefinitions of CanaryRelease and Release instead, in YAML, as `kubectl apply -f -` takes them
    #[arg(long)]
    pub crd: bool,
}

/// Exit code: 0, or 2 where the output can't be written.
pub fn run(args: &Args, out: &mut impl Write) -> u8 {
    let text = if args.crd {
        serde_saphyr::to_string_multiple(&crd::definitions()).map_err(io::Error::other)
    } else {
        serde_json::to_string_pretty(&schema::schema()).map(|text| text + "\n").map_err(io::Error::from)
    };
    let written = text.and_then(|text| out.write_all(text.as_bytes()));
    if written.is_ok() { 0 } else { 2 }
}
