use choirmaster::strategy::schema::{StrategyForm, schema};

use super::{REFERENCE, samples};

#[test]
fn every_sample_fits_the_documented_form() {
    for (file, text) in samples().into_iter().chain([("reference".to_owned(), REFERENCE.to_owned())]) {
        if let Err(error) = serde_saphyr::from_str::<StrategyForm>(&text) {
            panic!("{file}: {error}");
        }
    }
}

#[test]
fn the_schema_names_its_draft_and_refuses_unknown_keys() {
    let schema = serde_json::to_value(schema()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["id", "name", "functions", "stages"]));
}
