//! The description of the API, without its prose.

use serde_json::{Map, Value};

use crate::world::World;

/// Without what is said to people. What is called `description` or `title` among properties is a name.
fn bare(value: &mut Value, are_names: bool) {
    match value {
        Value::Object(map) => {
            if !are_names {
                for prose in ["description", "title", "summary", "example", "examples"] {
                    map.remove(prose);
                }
            }
            for (key, inner) in map {
                bare(inner, !are_names && ["properties", "schemas", "headers"].contains(&key.as_str()));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|inner| bare(inner, false)),
        _ => {}
    }
}

/// A line for what is a part of the document: an operation, a schema, a way to sign in.
fn add_lines(text: &mut String, part: &str, all: &Map<String, Value>) {
    for (name, value) in all {
        *text += &format!("{part} {name} {value}\n");
    }
}

#[tokio::test]
async fn what_the_api_describes_has_the_same_names() {
    let world = World::start().await;
    let mut document = world.get("/openapi.json").await.ok().json();
    bare(&mut document, false);
    let mut text = String::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        add_lines(&mut text, path, operations.as_object().unwrap());
    }
    for (kind, all) in document["components"].as_object().unwrap() {
        add_lines(&mut text, kind, all.as_object().unwrap());
    }
    insta::assert_snapshot!(text);
    world.stop().await;
}
