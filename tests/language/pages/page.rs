//! From the schema to Markdown: a section for each block of keys, with a table.

use serde_json::Value;

use crate::anchors::anchor;

/// A page, and what is on it.
pub struct Page {
    /// Its name in the folder of documents.
    pub file: &'static str,
    head: &'static str,
    pub blocks: &'static [Block],
}

/// Keys that stand next to each other.
pub struct Block {
    /// Where they stand, first of all.
    title: &'static str,
    /// What the schema calls them; empty for the whole file.
    pub form: &'static str,
}

const fn block(title: &'static str, form: &'static str) -> Block {
    Block { title, form }
}

/// The page that also describes values of more than one word.
const WITH_VALUES: &str = "language.md";

pub static PAGES: [Page; 2] = [
    Page {
        file: WITH_VALUES,
        head: "\
# The strategy language: functions and rollout

Look up here each key of a strategy: what it takes, and what holds without it.

`choirmaster schema` prints the same as a JSON Schema. Editors take it from the first line of a strategy:
`# yaml-language-server: $schema=../config/release.schema.json`. Keys of services and of analyses are in
[language-services.md](language-services.md). How a strategy is built is told in [strategies.md](strategies.md).

A key in **bold** is required. A duration, a percentage and other values are described under [values](#values).
",
        blocks: &[
            block("strategy file", ""),
            block("functions", "FunctionForm"),
            block("functions.base_version", "VersionForm"),
            block("functions.agents", "SelectorForm"),
            block("stages", "StageForm"),
            block("stages.variants", "VariantForm"),
            block("stages.metrics_conditions", "ConditionForm"),
            block("stages.end_conditions", "EndConditionForm"),
            block("stages.end_action", "EndActionForm"),
            block("target", "TargetForm"),
            block("rollout", "RolloutForm"),
            block("rollout.approval", "ApprovalStagesForm"),
            block("rollback", "RollbackForm"),
            block("rollback.action", "RollbackActionForm"),
        ],
    },
    Page {
        file: "language-services.md",
        head: "\
# The strategy language: services and analysis

Look up here each key of a strategy that is about services, about shares that grow by themselves, or about analyses.

All other keys are in [language.md](language.md), with a description of the [values](language.md#values). How services are released is
told in [services.md](services.md), and how analyses judge in [analysis.md](analysis.md).

A key in **bold** is required.
",
        blocks: &[
            block("services", "ServiceForm"),
            block("services.ports", "PortForm"),
            block("services.header", "HeaderRuleForm"),
            block("services.variations", "VariationForm"),
            block("services.variations.health", "HealthForm"),
            block("services.variations.run", "RunForm"),
            block("services.variations.run.limits", "ResourcesForm"),
            block("strategy", "RolloutTemplateForm"),
            block("strategy.stages", "TemplateStageForm"),
            block("analysis", "AnalysisForm"),
            block("analysis.inconclusive", "ExtendForm"),
            block("analysis.metrics", "MetricForm2"),
            block("analysis.metrics.template", "TemplateForm"),
            block("analysis.metrics.expected", "ExpectedForm"),
        ],
    },
];

/// A template of a metric has keys of a metric, which are described once.
const SAME: (&str, &str) = ("SharedForm", "MetricForm2");

impl Page {
    pub fn text(&self, schema: &Value) -> String {
        let reader = Reader::new(schema, self.file);
        let mut text = self.head.to_owned();
        for block in self.blocks {
            text += &reader.section(block);
        }
        if self.file == WITH_VALUES {
            text += &reader.values();
        }
        text
    }
}

/// The schema as one of the pages tells it.
pub struct Reader<'s> {
    schema: &'s Value,
    page: &'static str,
}

impl<'s> Reader<'s> {
    pub fn new(schema: &'s Value, page: &'static str) -> Self {
        Self { schema, page }
    }

    pub fn form(&self, name: &str) -> &'s Value {
        if name.is_empty() { self.schema } else { &self.schema["$defs"][name] }
    }

    /// What a value is made of, where the schema names it.
    fn named<'v>(&self, value: &'v Value) -> Option<(&'v str, &'s Value)> {
        let name = value["$ref"].as_str()?.rsplit('/').next()?;
        Some((name, self.form(name)))
    }

    fn section(&self, block: &Block) -> String {
        let form = self.form(block.form);
        let mut about = described(form, block.title).to_owned();
        let places = self.places(block.form);
        if !block.form.is_empty() && places != [block.title] {
            let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            about += &format!("\nIt stands at {}.", places.join(", "));
        }
        let mut text = format!("\n## {}\n\n{about}\n\n", block.title);
        text += "| key | type | unit | default | example | what it does |\n|---|---|---|---|---|---|\n";
        let required: Vec<&str> =
            form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut others: Vec<&str> = keys(form).filter(|key| !required.contains(key)).collect();
        others.sort_unstable();
        for key in &required {
            text += &self.row(block, key, true);
        }
        for key in others {
            text += &self.row(block, key, false);
        }
        text
    }

    fn row(&self, block: &Block, key: &str, is_required: bool) -> String {
        let value = &self.form(block.form)["properties"][key];
        let place = format!("{}.{key}", block.title);
        let lacks = |what: &str| -> String { panic!("the schema gives {place} no {what}") };
        let mut about = one_line(described(value, &place));
        for (word, meaning) in self.meanings(value) {
            about += &format!(" `{word}`: {}", lowered(&one_line(meaning)));
        }
        let unit = match self.of_type(value, "x-unit").and_then(Value::as_str) {
            Some(unit) => unit.to_owned(),
            None if is_number(value) => lacks("x-unit"),
            None => "–".to_owned(),
        };
        let default = match (value.get("default"), value["x-default"].as_str()) {
            _ if is_required => "required".to_owned(),
            (Some(default), _) => code(default),
            (None, Some(default)) => default.to_owned(),
            (None, None) if self.is_block(value) => "none".to_owned(),
            (None, None) => lacks("default and no x-default"),
        };
        let example = if self.is_block(value) {
            "see there".to_owned()
        } else {
            self.example(value).map_or_else(|| lacks("examples"), |example| code(&example))
        };
        let name = if is_required { format!("**`{key}`**") } else { format!("`{key}`") };
        let kind = self.kind(value);
        format!("| {name} | {kind} | {unit} | {default} | {example} | {} |\n", about.replace('|', "\\|"))
    }

    /// A value that may be written, and rather not the default.
    pub fn example(&self, value: &Value) -> Option<Value> {
        let example = self.of_type(value, "examples").map(|examples| examples[0].clone());
        let words = self.words(value);
        let is_other = |word: &&&str| value["default"].as_str() != Some(**word);
        let word = words.iter().find(is_other).or(words.first());
        let other = value["default"].as_bool().map(|default| Value::from(!default));
        example.or_else(|| word.map(|word| Value::from(*word))).or(other)
    }

    /// Where a block may stand.
    fn places(&self, form: &str) -> Vec<String> {
        let mut places = Vec::new();
        for block in PAGES.iter().flat_map(|page| page.blocks) {
            let inner = &self.form(block.form)["properties"];
            let of_block = keys(self.form(block.form)).filter(|key| self.holds(&inner[*key], form));
            let place = |key: &str| match block.form {
                "" => key.to_owned(),
                _ => format!("{}.{key}", block.title),
            };
            places.extend(of_block.map(place));
        }
        places
    }

    fn holds(&self, value: &Value, form: &str) -> bool {
        if let Some((name, inner)) = self.named(value) {
            return name == form || is_word_or_choice(inner) && self.holds(inner, form);
        }
        if let Some(all) = alternatives(value) {
            return all.into_iter().any(|one| self.holds(one, form));
        }
        contents(value).is_some_and(|inner| self.holds(inner, form))
    }

    fn is_block(&self, value: &Value) -> bool {
        if let Some((_, form)) = self.named(value) {
            return form["properties"].is_object();
        }
        if let Some(all) = alternatives(value) {
            return all.into_iter().all(|one| self.is_block(one));
        }
        contents(value).is_some_and(|inner| self.is_block(inner))
    }

    fn kind(&self, value: &Value) -> String {
        either(&self.kinds(value))
    }

    fn kinds(&self, value: &Value) -> Vec<String> {
        if let Some((name, form)) = self.named(value) {
            return match form["title"].as_str() {
                _ if form["properties"].is_object() => vec![self.link(name)],
                Some(title) => vec![format!("[{title}]({}#values)", self.address(WITH_VALUES))],
                None => self.kinds(form),
            };
        }
        if let Some(all) = alternatives(value) {
            return all.into_iter().flat_map(|one| self.kinds(one)).collect();
        }
        let words = words_of(value);
        if words.is_empty() {
            vec![self.plain_kind(value)]
        } else {
            words.into_iter().map(|word| format!("`{word}`")).collect()
        }
    }

    fn plain_kind(&self, value: &Value) -> String {
        match type_of(value) {
            Some("array") => {
                let items = self.kind(&value["items"]);
                match bounds(&value["minItems"], &value["maxItems"]) {
                    Some(bounds) => format!("list of {bounds} {items}"),
                    None => format!("list of {items}"),
                }
            }
            Some("object") => format!("map of names to {}", self.kind(&value["additionalProperties"])),
            Some("integer") => bounded("whole number", value),
            Some("number") => bounded("number", value),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "text".to_owned(),
            other => panic!("there is no word here for values of the type {other:?}: {value}"),
        }
    }

    fn link(&self, form: &str) -> String {
        let form = if form == SAME.0 { SAME.1 } else { form };
        let mut homes = PAGES.iter().flat_map(|page| page.blocks.iter().map(move |block| (page.file, block)));
        let (file, block) = homes.find(|(_, block)| block.form == form).unwrap();
        format!("[{}]({}#{})", block.title, self.address(file), anchor(block.title))
    }

    /// As a link names it: nothing for the page itself.
    fn address(&self, file: &'static str) -> &'static str {
        if file == self.page { "" } else { file }
    }

    /// The words that may be written.
    fn words<'v>(&self, value: &'v Value) -> Vec<&'v str>
    where
        's: 'v,
    {
        if let Some((_, form)) = self.named(value) {
            return if form["properties"].is_object() { Vec::new() } else { self.words(form) };
        }
        match alternatives(value) {
            Some(all) => all.into_iter().flat_map(|one| self.words(one)).collect(),
            None => words_of(value),
        }
    }

    /// What each of the words means, where the schema tells.
    fn meanings<'v>(&self, value: &'v Value) -> Vec<(&'v str, &'v str)>
    where
        's: 'v,
    {
        if let Some((_, form)) = self.named(value) {
            return if is_word_or_choice(form) { self.meanings(form) } else { Vec::new() };
        }
        let of_one = |one: &'v Value| match self.named(one) {
            Some(_) => self.meanings(one),
            None => words_of(one)
                .into_iter()
                .filter_map(|word| Some((word, one["description"].as_str()?)))
                .collect(),
        };
        alternatives(value).into_iter().flatten().flat_map(of_one).collect()
    }

    /// What a key says of its value, or else the value's type.
    fn of_type<'v>(&self, value: &'v Value, key: &str) -> Option<&'v Value>
    where
        's: 'v,
    {
        if let Some(own) = value.get(key) {
            return Some(own);
        }
        if let Some((_, form)) = self.named(value) {
            return self.of_type(form, key);
        }
        let all = alternatives(value)?;
        let [only] = all[..] else { return None };
        self.of_type(only, key)
    }

    /// Values that are neither a word nor a block.
    fn values(&self) -> String {
        let forms = self.schema["$defs"].as_object().unwrap().values();
        let mut titled: Vec<(&str, &Value)> = forms
            .filter(|form| !form["properties"].is_object())
            .filter_map(|form| Some((form["title"].as_str()?, form)))
            .collect();
        titled.sort_by_key(|(title, _)| title.to_lowercase());
        let mut text =
            "\n## values\n\n| value | unit | example | what it is |\n|---|---|---|---|\n".to_owned();
        for (title, form) in titled {
            let unit = form["x-unit"].as_str().unwrap_or("–");
            let example = form.get("examples").map_or("–".to_owned(), |examples| code(&examples[0]));
            text += &format!("| {title} | {unit} | {example} | {} |\n", one_line(described(form, title)));
        }
        text
    }
}

pub fn keys(form: &Value) -> impl Iterator<Item = &str> {
    form["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str())
}

fn described<'v>(value: &'v Value, place: &str) -> &'v str {
    value["description"].as_str().unwrap_or_else(|| panic!("the schema gives {place} no description"))
}

/// A form that stands for what may be written in its place, and has no description of its own among the values.
fn is_word_or_choice(form: &Value) -> bool {
    !form["properties"].is_object() && !form["title"].is_string()
}

/// What may be written in the place of a value, but for nothing at all.
pub fn alternatives(value: &Value) -> Option<Vec<&Value>> {
    let all = value["anyOf"].as_array().or(value["oneOf"].as_array())?;
    Some(all.iter().filter(|one| one["type"] != "null").collect())
}

/// What a list or a map is of.
fn contents(value: &Value) -> Option<&Value> {
    value.get("items").or(value.get("additionalProperties")).filter(|inner| inner.is_object())
}

fn words_of(value: &Value) -> Vec<&str> {
    let listed = value["enum"].as_array().into_iter().flatten();
    value.get("const").into_iter().chain(listed).filter_map(Value::as_str).collect()
}

fn type_of(value: &Value) -> Option<&str> {
    let all = value["type"].as_array().map_or(std::slice::from_ref(&value["type"]), Vec::as_slice);
    all.iter().filter_map(Value::as_str).find(|name| *name != "null")
}

fn is_number(value: &Value) -> bool {
    matches!(type_of(value), Some("integer" | "number"))
}

fn bounds(least: &Value, most: &Value) -> Option<String> {
    match (least.as_u64(), most.as_u64()) {
        (Some(least), Some(most)) if least == most => Some(least.to_string()),
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) if least > 0 => Some(format!("{least} or more")),
        _ => None,
    }
}

fn bounded(kind: &str, value: &Value) -> String {
    match bounds(&value["minimum"], &value["maximum"]) {
        Some(bounds) => format!("{kind}, {bounds}"),
        None => kind.to_owned(),
    }
}

fn either(all: &[String]) -> String {
    match all {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => all.concat(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As it goes on behind a colon.
fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next();
    if chars.clone().next().is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    first.into_iter().flat_map(char::to_lowercase).chain(chars).collect()
}

fn code(value: &Value) -> String {
    format!("`{}`", in_yaml(value).replace('|', "\\|"))
}

/// As it stands in a strategy, on one line.
fn in_yaml(value: &Value) -> String {
    match value {
        Value::Object(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key}: {}", in_yaml(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(in_yaml).collect::<Vec<_>>().join(", ")),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Whether a text needs no quotes.
fn is_plain(text: &str) -> bool {
    let is_other = text.parse::<f64>().is_ok() || matches!(text, "" | "true" | "false" | "null");
    let is_safe = text.chars().all(|c| c.is_alphanumeric() || " _./-%$@+".contains(c));
    is_safe && !is_other && !text.starts_with(['-', '%', '@', ' ']) && !text.ends_with(' ')
}
