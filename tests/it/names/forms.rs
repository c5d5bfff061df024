//! Keys and variants of all that is serialized, as serde calls them.
//!
//! A line is a type, without its name and place: `{…}` the keys of a struct, `a | b` the variants of an enum.
//!
//! | mark | what it says |
//! |---|---|
//! | `>`, `<` | it is written, it is read |
//! | `?` | it may be missing |
//! | `=a` | it is also read under that name |
//! | `..` | its keys stand among the others |
//! | `!` | no other keys are read |
//!
//! Types that macros declare are not seen: they have no keys of their own but the rows of an export, which [`super::tables`] shows.

use syn::{Attribute, Fields, ItemEnum, ItemStruct, LitStr, Token, punctuated::Punctuated, visit::Visit};

use super::sorted;
use crate::source;

/// What `#[serde(…)]` says of a type, a variant or a field: `key`, `key = "value"`, `key(inner = "value")`.
#[derive(Default)]
struct Said(Vec<(String, Option<String>)>);

impl Said {
    fn of(attributes: &[Attribute]) -> Self {
        let mut said = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| said.take("", &meta)).unwrap();
        }
        said
    }

    fn take(&mut self, outer: &str, meta: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let key = format!("{outer}{name}");
        if meta.input.peek(syn::token::Paren) {
            return meta.parse_nested_meta(|inner| self.take(&format!("{key}."), &inner));
        }
        let value = match meta.value() {
            Ok(value) => Some(value.parse::<LitStr>()?.value()),
            Err(_) => None,
        };
        self.0.push((key, value));
        Ok(())
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key)?.1.as_deref()
    }

    /// The name of what is called so in the code, and those under which it is read too.
    fn name(&self, is: &str, rule: Option<&str>, of_field: bool) -> String {
        let by_rule = || if of_field { field_by(rule, is) } else { variant_by(rule, is) };
        let mut name = match (self.text("rename.serialize"), self.text("rename.deserialize")) {
            (None, None) => self.text("rename").map_or_else(by_rule, str::to_owned),
            (written, read) => format!("{}/{}", written.unwrap_or(is), read.unwrap_or(is)),
        };
        for (_, alias) in self.0.iter().filter(|(key, _)| key == "alias") {
            name += &format!("={}", alias.as_deref().unwrap());
        }
        name
    }
}

fn words(snake: &str) -> impl Iterator<Item = String> {
    snake.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    })
}

fn field_by(rule: Option<&str>, field: &str) -> String {
    match rule {
        None | Some("snake_case" | "lowercase") => field.to_owned(),
        Some("kebab-case") => field.replace('_', "-"),
        Some("SCREAMING_SNAKE_CASE" | "UPPERCASE") => field.to_ascii_uppercase(),
        Some("PascalCase") => words(field).collect(),
        Some("camelCase") => variant_by(rule, &words(field).collect::<String>()),
        Some(other) => panic!("{other} for {field}"),
    }
}

fn variant_by(rule: Option<&str>, variant: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in variant.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    match rule {
        None | Some("PascalCase") => variant.to_owned(),
        Some("lowercase") => variant.to_ascii_lowercase(),
        Some("UPPERCASE") => variant.to_ascii_uppercase(),
        Some("camelCase") => variant[..1].to_ascii_lowercase() + &variant[1..],
        Some("snake_case") => snake,
        Some("SCREAMING_SNAKE_CASE") => snake.to_ascii_uppercase(),
        Some("kebab-case") => snake.replace('_', "-"),
        Some(other) => panic!("{other} for {variant}"),
    }
}

/// What stands for the fields; nothing where no name of theirs is written or read.
fn shape(fields: &Fields, rule: Option<&str>) -> String {
    match fields {
        Fields::Unit => String::new(),
        Fields::Unnamed(fields) => format!("({})", vec!["_"; fields.unnamed.len()].join(",")),
        Fields::Named(fields) => {
            let mut keys = Vec::new();
            for field in &fields.named {
                let said = Said::of(&field.attrs);
                let is = field.ident.as_ref().unwrap().to_string();
                let is = is.strip_prefix("r#").unwrap_or(&is);
                if said.has("skip") {
                    continue;
                }
                let mut key = if said.has("flatten") { "..".to_owned() } else { said.name(is, rule, true) };
                for (attribute, mark) in [
                    ("skip_serializing", "<"),
                    ("skip_deserializing", ">"),
                    ("skip_serializing_if", "?>"),
                    ("default", "?<"),
                ] {
                    if said.has(attribute) {
                        key += mark;
                    }
                }
                keys.push(key);
            }
            format!("{{{}}}", keys.join(", "))
        }
    }
}

/// Which of serde's traits are derived: `>` written, `<` read.
fn derived(attributes: &[Attribute]) -> String {
    let mut marks = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated).unwrap();
        for path in paths {
            match path.segments.last().unwrap().ident.to_string().as_str() {
                "Serialize" => marks.push('>'),
                "Deserialize" => marks.push('<'),
                _ => {}
            }
        }
    }
    marks
}

fn form_of_struct(item: &ItemStruct) -> Option<String> {
    let marks = derived(&item.attrs);
    let said = Said::of(&item.attrs);
    if marks.is_empty() || said.has("transparent") || !matches!(item.fields, Fields::Named(_)) {
        return None;
    }
    Some(format!("{marks}{}{}", of_type(&said), shape(&item.fields, said.text("rename_all"))))
}

fn form_of_enum(item: &ItemEnum) -> Option<String> {
    let marks = derived(&item.attrs);
    let said = Said::of(&item.attrs);
    if marks.is_empty() {
        return None;
    }
    let variants = item.variants.iter().filter_map(|variant| {
        let own = Said::of(&variant.attrs);
        let mut name = match () {
            () if own.has("skip") => return None,
            () if said.has("untagged") || own.has("untagged") => String::new(),
            () => own.name(&variant.ident.to_string(), said.text("rename_all"), false),
        };
        if own.has("other") {
            name += " other";
        }
        let rule = own.text("rename_all").or(said.text("rename_all_fields"));
        Some(name + &shape(&variant.fields, rule))
    });
    Some(format!("{marks}{}{}", of_type(&said), variants.collect::<Vec<_>>().join(" | ")))
}

/// What is said of the whole type.
fn of_type(said: &Said) -> String {
    let mut marks = " ".to_owned();
    for key in ["tag", "content"] {
        if let Some(name) = said.text(key) {
            marks += &format!("{key} {name}: ");
        }
    }
    for (key, mark) in [
        ("deny_unknown_fields", "! "),
        ("default", "? "),
        ("untagged", "untagged: "),
        ("from", "as another: "),
        ("try_from", "as another: "),
        ("into", "as another: "),
    ] {
        if said.has(key) {
            marks += mark;
        }
    }
    marks
}

#[derive(Default)]
struct Forms(Vec<String>);

impl Visit<'_> for Forms {
    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.0.extend(form_of_struct(item));
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        self.0.extend(form_of_enum(item));
    }
}

#[test]
fn what_is_serialized_has_the_same_keys_and_variants() {
    let mut forms = Forms::default();
    for source in source::all() {
        forms.visit_file(&source.file);
    }
    insta::assert_snapshot!(sorted(forms.0));
}
