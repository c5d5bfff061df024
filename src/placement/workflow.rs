use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};

use super::{Requirements, requirements};

/// Bytes of a workflow's text, at most.
pub const MAX_WORKFLOW_BYTES: usize = 16 * 1024 * 1024;

/// Functions and resources of a workflow, at most.
pub const MAX_PARTS: usize = 10_000;

/// Bytes of a name, at most.
const MAX_NAME_BYTES: usize = 256;

/// Most bytes of the annotations of a function, or of the configuration of a resource.
const MAX_TOLD_BYTES: usize = 64 * 1024;

/// Outputs, and annotations, of a part, at most.
const MAX_ENTRIES: usize = 1_000;

/// Faults that are told; nothing is looked for beyond them.
const MAX_FAULTS: usize = 100;

/// Faults of which it is told what was probably meant, which takes a look at all names.
const MAX_SUGGESTED: usize = 10;

/// Types of functions that EDGELESS runs by itself, and nobody else by these names.
const TYPES_OF_EDGELESS: [&str; 3] = ["RUST_WASM", "RUST_NATIVE", "CONTAINER"];

/// Functions, resources, and where what they put out goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// No two parts have the same name.
    pub functions: Vec<Function>,
    pub resources: Vec<Resource>,
    pub annotations: BTreeMap<String, String>,
    /// The place of each part by its name, resources first, and by that the places of those that put something out to it.
    pub places: BTreeMap<String, u32>,
    pub senders: Vec<Vec<u32>>,
}

/// A function of a workflow, of which one instance runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// What it is an instance of, and which version of it.
    pub class: String,
    pub version: String,
    /// Where its code is, as the workflow says it: a path beside it, or an image.
    pub code: Option<String>,
    /// By the name of an output: the part that gets what it puts out there.
    pub outputs: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub requirements: Requirements,
    /// It puts something out and gets nothing: it begins by itself.
    pub is_source: bool,
}

/// What events come from or go to that is no function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    pub class: String,
    pub outputs: BTreeMap<String, String>,
    pub configuration: BTreeMap<String, String>,
    pub requirements: Requirements,
}

impl Function {
    /// The folder of its code in an archive: its path without `./` in front and a slash behind.
    ///
    /// # Errors
    ///
    /// It has none, or one that leads elsewhere.
    pub fn folder(&self) -> Result<String, String> {
        let code = self.code.as_deref().ok_or("it says nothing of its code")?;
        language::functions::safe(code).map_err(|error| error.to_string())
    }
}

/// Which runtime runs functions of a type. A type that isn't named is a runtime itself, but for those of EDGELESS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionTypes(pub BTreeMap<String, String>);

impl FunctionTypes {
    /// Those of a manager of which nothing is known: each type has a runtime.
    #[must_use]
    pub fn any() -> Self {
        Self(TYPES_OF_EDGELESS.map(|of| (of.to_owned(), of.to_owned())).into())
    }

    fn runtime<'t>(&'t self, of: &'t str) -> Option<&'t str> {
        let named = self.0.get(of).map(String::as_str);
        named.or_else(|| (!TYPES_OF_EDGELESS.contains(&of)).then_some(of))
    }
}

/// What is wrong with a workflow, or odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowFault {
    /// Where: `functions[2].annotations.tee`; empty: the whole.
    pub at: String,
    pub what: String,
}

impl fmt::Display for WorkflowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.at, self.what) }
    }
}

impl std::error::Error for WorkflowFault {}

/// As EDGELESS writes it, today and before: a key has the name that it had in earlier versions, too. Keys that aren't known are passed
/// over there, and here.
#[derive(Deserialize)]
#[serde(expecting = "a workflow")]
struct WorkflowForm {
    functions: Vec<FunctionForm>,
    #[serde(default)]
    resources: Vec<ResourceForm>,
    #[serde(default, deserialize_with = "each_once")]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function")]
struct FunctionForm {
    name: String,
    class_specification: ClassForm,
    #[serde(default, alias = "output_callback_definitions", deserialize_with = "each_once")]
    output_mapping: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "each_once")]
    annotations: BTreeMap<String, String>,
    #[serde(flatten, deserialize_with = "keys_alone")]
    others: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "what a function is an instance of")]
struct ClassForm {
    id: String,
    function_type: String,
    version: String,
    #[serde(alias = "include_code_file")]
    code: Option<String>,
    #[serde(default, alias = "output_callbacks")]
    outputs: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a resource")]
struct ResourceForm {
    name: String,
    class_type: String,
    #[serde(default, alias = "output_callback_definitions", deserialize_with = "each_once")]
    output_mapping: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "each_once")]
    configurations: BTreeMap<String, String>,
    #[serde(flatten, deserialize_with = "keys_alone")]
    others: BTreeSet<String>,
}

/// The keys of an object, whatever stands there.
fn keys_alone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    struct KeysAlone;

    impl<'de> Visitor<'de> for KeysAlone {
        type Value = BTreeSet<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut keys = BTreeSet::new();
            while let Some((key, IgnoredAny)) = from.next_entry()? {
                keys.insert(key);
            }
            Ok(keys)
        }
    }

    deserializer.deserialize_map(KeysAlone)
}

/// A key that is there twice would lose what it says first, which may be a requirement.
fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct EachOnce;

    impl<'de> Visitor<'de> for EachOnce {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((key, value)) = from.next_entry::<String, String>()? {
                if all.insert(key.clone(), value).is_some() {
                    return Err(A::Error::custom(format_args!("{key} is there twice")));
                }
            }
            Ok(all)
        }
    }

    deserializer.deserialize_map(EachOnce)
}

impl Workflow {
    /// Reads a `workflow.json`. What is odd about it comes with it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn read(
        text: &[u8],
        types: &FunctionTypes,
    ) -> Result<(Self, Vec<WorkflowFault>), Vec<WorkflowFault>> {
        let whole = |what: String| vec![WorkflowFault { at: String::new(), what }];
        if text.len() > MAX_WORKFLOW_BYTES {
            return Err(whole(format!("it has more than {MAX_WORKFLOW_BYTES} bytes")));
        }
        // Whatever reads JSON here would take a list for a workflow, too.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(whole("it is no JSON object".to_owned()));
        }
        let form: WorkflowForm = serde_json::from_slice(text).map_err(|error| whole(error.to_string()))?;
        let parts = form.functions.len() + form.resources.len();
        if parts > MAX_PARTS {
            return Err(whole(format!("it has {parts} functions and resources, and may have {MAX_PARTS}")));
        }
        if parts == 0 {
            return Err(whole("it has neither functions nor resources".to_owned()));
        }
        let mut reading = Reading::new(&form);
        let of_all = form.annotations.keys().filter(|name| requirements::NAMES.contains(&name.as_str()));
        for name in of_all {
            let what = "it is required of no node here: each function says it in its own annotations";
            reading.odd(format!("annotations.{name}"), what.to_owned());
        }
        let functions = form.functions.into_iter().enumerate();
        let functions = functions.map(|(at, form)| reading.function(at, form, types)).collect();
        let resources = form.resources.into_iter().enumerate();
        let resources = resources.map(|(at, form)| reading.resource(at, form)).collect();
        let Reading { wrong, odd, .. } = reading;
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let (places, senders) = (BTreeMap::new(), Vec::new());
        let mut read = Self { functions, resources, annotations: form.annotations, places, senders };
        read.find_senders();
        Ok((read, odd))
    }

    fn find_senders(&mut self) {
        let names =
            self.resources.iter().map(|one| &one.name).chain(self.functions.iter().map(|one| &one.name));
        let places: BTreeMap<String, u32> = names.cloned().zip(0..).collect();
        let outputs = self.resources.iter().map(|one| &one.outputs);
        let outputs = outputs.chain(self.functions.iter().map(|one| &one.outputs));
        let mut senders = vec![Vec::new(); places.len()];
        for (of, outputs) in outputs.enumerate() {
            let targets: BTreeSet<u32> =
                outputs.values().filter_map(|name| places.get(name).copied()).collect();
            for target in targets {
                senders[target as usize].push(of as u32);
            }
        }
        (self.places, self.senders) = (places, senders);
        for (function, senders) in self.functions.iter_mut().zip(&self.senders[self.resources.len()..]) {
            function.is_source = !function.outputs.is_empty() && senders.is_empty();
        }
    }

    /// By the name of each part: those that it sends events to, and those that send it events.
    #[must_use]
    pub fn neighbours(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let functions = self.functions.iter().map(|one| (&one.name, &one.outputs));
        let resources = self.resources.iter().map(|one| (&one.name, &one.outputs));
        let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, outputs) in functions.chain(resources) {
            for target in outputs.values().filter(|target| *target != name) {
                all.entry(name).or_default().insert(target);
                all.entry(target).or_default().insert(name);
            }
        }
        all
    }
}

/// A workflow that is being read.
struct Reading {
    /// Of all parts.
    names: BTreeSet<String>,
    seen: BTreeSet<String>,
    wrong: Vec<WorkflowFault>,
    odd: Vec<WorkflowFault>,
}

impl Reading {
    fn new(form: &WorkflowForm) -> Self {
        let functions = form.functions.iter().map(|function| &function.name);
        let resources = form.resources.iter().map(|resource| &resource.name);
        let names = functions.chain(resources).cloned().collect();
        Self { names, seen: BTreeSet::new(), wrong: Vec::new(), odd: Vec::new() }
    }

    fn fault(&mut self, at: String, what: String) {
        if self.wrong.len() < MAX_FAULTS {
            self.wrong.push(WorkflowFault { at, what });
        }
    }

    fn odd(&mut self, at: String, what: String) {
        if self.odd.len() < MAX_FAULTS {
            self.odd.push(WorkflowFault { at, what });
        }
    }

    /// Keys that nobody knows, and one that is known was probably meant.
    fn others(&mut self, path: &str, others: &BTreeSet<String>, known: &[&str]) {
        for key in others.iter().take(MAX_ENTRIES) {
            let near = language::nearest(key, known.iter().copied());
            let near = near.or_else(|| ["annotations", "configurations"].contains(&&**key).then(|| known[0]));
            if let Some(near) = near {
                self.odd(format!("{path}.{key}"), format!("nobody reads it; did you mean {near}?"));
            }
        }
    }

    /// A name of a class, a type or a version.
    fn word(&mut self, at: String, word: &str) {
        if word.is_empty() || word.len() > MAX_NAME_BYTES || word.chars().any(char::is_control) {
            self.fault(at, format!("it has 1 to {MAX_NAME_BYTES} bytes, none of them a control character"));
        }
    }

    fn entries(&mut self, at: String, count: usize) -> bool {
        if count > MAX_ENTRIES {
            self.fault(at, format!("it has {count} entries, and may have {MAX_ENTRIES}"));
        }
        count <= MAX_ENTRIES
    }

    /// What a part is told of itself goes to its node with each change there.
    fn size(&mut self, at: String, told: &BTreeMap<String, String>) {
        let bytes: usize = told.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_TOLD_BYTES {
            self.fault(at, format!("it has {bytes} bytes, and may have {MAX_TOLD_BYTES}"));
        }
    }

    fn function(&mut self, at: usize, form: FunctionForm, types: &FunctionTypes) -> Function {
        let FunctionForm { name, class_specification, output_mapping, annotations, others } = form;
        let ClassForm { id, function_type, version, code, outputs } = class_specification;
        let path = format!("functions[{at}]");
        self.name(&path, &name);
        self.others(&path, &others, &["annotations", "output_mapping", "class_specification"]);
        self.word(format!("{path}.class_specification.id"), &id);
        self.word(format!("{path}.class_specification.function_type"), &function_type);
        self.targets(&path, &output_mapping);
        // Workflows in use leave out what they put out.
        let unknown =
            output_mapping.keys().filter(|output| !outputs.is_empty() && !outputs.contains(*output));
        for output in unknown.take(MAX_FAULTS).cloned().collect::<Vec<_>>() {
            let what = format!("{id} has no output {output}; it has {}", listed(&outputs));
            self.odd(format!("{path}.output_mapping.{output}"), what);
        }
        let runtime = types.runtime(&function_type);
        if runtime.is_none() {
            let what = format!(
                "nothing here runs {function_type}: placement.function_types of the manager's configuration says which runtime does"
            );
            self.fault(format!("{path}.class_specification.function_type"), what);
        }
        self.size(format!("{path}.annotations"), &annotations);
        let requirements = self.requirements(&format!("{path}.annotations"), runtime, &annotations);
        Function {
            name,
            class: id,
            version,
            code,
            outputs: output_mapping,
            annotations,
            requirements,
            is_source: false,
        }
    }

    fn resource(&mut self, at: usize, form: ResourceForm) -> Resource {
        let ResourceForm { name, class_type, output_mapping, configurations, others } = form;
        let path = format!("resources[{at}]");
        self.name(&path, &name);
        self.others(&path, &others, &["configurations", "output_mapping", "class_type"]);
        self.word(format!("{path}.class_type"), &class_type);
        self.targets(&path, &output_mapping);
        self.size(format!("{path}.configurations"), &configurations);
        let mut requirements = self.requirements(&format!("{path}.configurations"), None, &configurations);
        requirements.resources.insert(class_type.clone());
        Resource {
            name,
            class: class_type,
            outputs: output_mapping,
            configuration: configurations,
            requirements,
        }
    }

    fn name(&mut self, path: &str, name: &str) {
        let what = match () {
            () if name.is_empty() => "it is empty".to_owned(),
            () if name.len() > MAX_NAME_BYTES => format!("it has more than {MAX_NAME_BYTES} bytes"),
            () if name.chars().any(char::is_control) => "it has a control character".to_owned(),
            () if !self.seen.insert(name.to_owned()) => format!("another part is called {name}, too"),
            () => return,
        };
        self.fault(format!("{path}.name"), what);
    }

    fn targets(&mut self, path: &str, outputs: &BTreeMap<String, String>) {
        if !self.entries(format!("{path}.output_mapping"), outputs.len()) {
            return;
        }
        for (output, target) in outputs {
            if !self.names.contains(target) {
                if self.wrong.len() >= MAX_SUGGESTED {
                    self.fault(
                        format!("{path}.output_mapping.{output}"),
                        format!("no part is called {target}"),
                    );
                    continue;
                }
                let near = language::nearest(target, self.names.iter().map(String::as_str));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                self.fault(
                    format!("{path}.output_mapping.{output}"),
                    format!("no part is called {target}{near}"),
                );
            }
        }
    }

    fn requirements(
        &mut self,
        path: &str,
        runtime: Option<&str>,
        annotations: &BTreeMap<String, String>,
    ) -> Requirements {
        if !self.entries(path.to_owned(), annotations.len()) {
            return Requirements::default();
        }
        // A requirement that is mistyped would be none.
        for name in annotations.keys().filter(|name| !requirements::NAMES.contains(&name.as_str())) {
            if let Some(near) = requirements::misspelt(name) {
                let what = format!("it is no requirement; did you mean {near}?");
                self.odd(format!("{path}.{name}"), what);
            }
        }
        Requirements::read(runtime, annotations).unwrap_or_else(|error| {
            self.fault(format!("{path}.{}", error.name()), error.to_string());
            Requirements::default()
        })
    }
}

fn listed(all: &BTreeSet<String>) -> String {
    all.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
