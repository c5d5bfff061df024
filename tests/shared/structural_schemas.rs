//! What a structural schema says of a document, as the API server of a cluster reads both where a field that no schema has is refused.

use serde_json::Value;

/// Whether a text fits a pattern.
pub type Fits = fn(pattern: &str, text: &str) -> bool;

/// Each fault, with its place.
pub fn faults(schema: &Value, document: &Value, fits: Fits) -> Vec<String> {
    let mut reader = Reader { fits, found: Vec::new() };
    reader.look(schema, document, "");
    reader.found
}

struct Reader {
    fits: Fits,
    found: Vec<String>,
}

impl Reader {
    fn fault(&mut self, place: &str, why: &str) {
        self.found.push(format!("{}: {why}", place.trim_start_matches('.')));
    }

    fn look(&mut self, schema: &Value, value: &Value, place: &str) {
        let kind = &schema["type"];
        let is_of_kind = match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            _ => panic!("{place} has the type {kind}"),
        };
        if !is_of_kind {
            return self.fault(place, &format!("it is no {kind}"));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            self.fault(place, &format!("it is none of {}", schema["enum"]));
        }
        match value {
            Value::Object(_) => self.look_at_fields(schema, value, place),
            Value::Array(items) => self.look_at_items(schema, items, place),
            Value::String(text) => {
                self.bounds(schema, ["minLength", "maxLength"], text.chars().count() as i64, place);
                if let Some(pattern) = schema["pattern"].as_str()
                    && !(self.fits)(pattern, text)
                {
                    self.fault(place, &format!("it doesn't fit {pattern}"));
                }
            }
            Value::Number(number) => {
                self.bounds(schema, ["minimum", "maximum"], number.as_i64().unwrap_or(i64::MAX), place);
            }
            _ => {}
        }
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if !holds(rule["rule"].as_str().unwrap(), value) {
                self.fault(place, &rule["message"].to_string());
            }
        }
    }

    fn bounds(&mut self, schema: &Value, [least, most]: [&str; 2], count: i64, place: &str) {
        let is_below = schema[least].as_i64().is_some_and(|least| count < least);
        let is_above = schema[most].as_i64().is_some_and(|most| count > most);
        if is_below || is_above {
            let (least, most) = (&schema[least], &schema[most]);
            self.fault(place, &format!("{count} is not from {least} to {most}"));
        }
    }

    fn look_at_fields(&mut self, schema: &Value, value: &Value, place: &str) {
        // An API server takes null for a field that isn't there.
        let fields = value.as_object().into_iter().flatten().filter(|(_, inner)| !inner.is_null());
        let fields: Vec<(&String, &Value)> = fields.collect();
        self.bounds(schema, ["minProperties", "maxProperties"], fields.len() as i64, place);
        for name in schema["required"].as_array().into_iter().flatten() {
            if !fields.iter().any(|(known, _)| *known == name) {
                self.fault(place, &format!("there is no {name}"));
            }
        }
        // What else metadata has is known to each API server.
        let is_open = place == ".metadata" || schema["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, inner) in fields {
            let place = format!("{place}.{name}");
            let of_map = Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
            match schema["properties"].get(name).or(of_map) {
                Some(schema) => self.look(schema, inner, &place),
                None if is_open => {}
                None => self.fault(&place, "no field is called so"),
            }
        }
    }

    fn look_at_items(&mut self, schema: &Value, items: &[Value], place: &str) {
        self.bounds(schema, ["minItems", "maxItems"], items.len() as i64, place);
        let names = schema["x-kubernetes-list-map-keys"].as_array();
        let key = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Some(vec![item.clone()]),
            Some("map") => {
                Some(names.unwrap().iter().map(|name| item[name.as_str().unwrap()].clone()).collect())
            }
            _ => None,
        };
        for (at, item) in items.iter().enumerate() {
            let place = format!("{place}[{at}]");
            self.look(&schema["items"], item, &place);
            if key(item)
                .is_some_and(|own| items[..at].iter().any(|before| key(before).as_ref() == Some(&own)))
            {
                self.fault(&place, "it is there twice");
            }
        }
    }
}

/// What a rule says, of a document that nobody has changed yet.
fn holds(rule: &str, own: &Value) -> bool {
    match rule {
        "self == oldSelf" => true,
        "self.versions.exists(one, one.version == self.version)" => {
            let versions = own["versions"].as_array();
            versions.is_none_or(|all| all.iter().any(|one| one["version"] == own["version"]))
        }
        "has(self.targets) || has(self.run)" => !own["targets"].is_null() || !own["run"].is_null(),
        other => panic!("no test knows what {other} says"),
    }
}
