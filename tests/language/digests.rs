//! What nobody changed has the digest that it always had: by that a release that is submitted again is known.

use language::functions::{Limits, from_upload};
use model::hex;
use sha2::{Digest as _, Sha256};
use zip::CompressionMethod;

use super::{
    REFERENCE,
    functions::{sound, strategy, zip_of},
    load,
};

const ROLLOUT: &str = r"
target:
  area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]]}
  labels: {tier: edge}
rollout: {order: waves, waves: [1, 10%, 100%], max_failed: 1, soak: 10m, approval: before_rollout, untested: rollout}
";

fn of_strategy(text: &str) -> String {
    hex::encode(&Sha256::digest(load(text).digest_form().unwrap()))
}

#[test]
fn of_a_strategy() {
    let found = [of_strategy(REFERENCE), of_strategy(&format!("{REFERENCE}{ROLLOUT}"))];
    let expected = [
        "7452c4abf1d8303219116ab284e34ad44a10102c2050023dda6a3bcb3c6fb87c",
        "32a97fe8a9f48645b8c70f5e352eedf44ec5f6bc380fdbe1cccbe57fc310bfd2",
    ];
    assert_eq!(found, expected);
}

#[test]
fn of_functions() {
    let zip = zip_of(&sound(), CompressionMethod::Deflated);
    let archive = from_upload(&zip, &strategy(), &Limits::default()).unwrap();
    assert_eq!(archive.digest_text(), "7d00b1cf1c71e8bc64c4b6024d6fead2d8e6748f94e1e99a6344511c89be0285");
}
