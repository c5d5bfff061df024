//! What a folder of manifests asks for, as it changes.

use std::collections::BTreeMap;

use canary_releases::{
    Document,
    folder::{Contents, Look, Meaning, Rest, Subject, Wish, is_manifest},
};
use model::steps;
use serde_json::json;

use crate::{canary, checkout_2, release, shop, with};

/// `shop:2` is the release with that version as the current one; `c2:10` a canary with that weight; `c2:10:Adopted` the same adopted.
fn meaning(word: &str) -> Meaning {
    let mut parts = word.split(':');
    let (name, number) = (parts.next().unwrap(), parts.next().unwrap().parse::<i32>().unwrap());
    if name == "shop" {
        return Document::Release(release(&with(shop(), "/spec/version", json!(number)))).into();
    }
    let named = with(checkout_2(number), "/metadata/name", json!(name));
    let transition = json!(parts.next().unwrap_or_default());
    Document::Canary(canary(&with(named, "/spec/transition", transition))).into()
}

fn word(wish: &Wish) -> String {
    match wish {
        Wish::Submit { file, meaning, is_news } => {
            let is = if *is_news { "news" } else { "old" };
            format!("submit {} of {file}, {is}", meaning.subject.name())
        }
        Wish::Deprecate { canary, file } => format!("deprecate {canary} of {file}"),
    }
}

/// A folder, and the words of its files.
struct Folder {
    contents: Contents,
    files: BTreeMap<String, String>,
}

impl Folder {
    /// One that an earlier process has left with these canaries.
    fn left_with(left: &[(&str, &str)]) -> Self {
        let left = left.iter().map(|(canary, file)| ((*canary).to_owned(), (*file).to_owned()));
        Self { contents: Contents::left_with(left), files: BTreeMap::new() }
    }

    /// `1 short: a.yml=c2:10 b.yml=?`: a folder, its rest, and its files, of which `?` can't be understood. Of those that are as they were nothing
    /// is told.
    fn becomes(&mut self, line: &str) -> Look {
        let (at, files) = line.split_once(':').unwrap();
        let (folder, rest) = at.split_once(' ').unwrap();
        let rest = match rest {
            "none" => Rest::None,
            "short" => Rest::Short,
            "long" => Rest::Long,
            other => panic!("{other} is no rest"),
        };
        let files = files.split_whitespace().map(|file| file.split_once('=').unwrap());
        let files: BTreeMap<String, String> =
            files.map(|(file, said)| (file.to_owned(), said.to_owned())).collect();
        for file in self.files.keys().filter(|file| !files.contains_key(*file)) {
            self.contents.remove(file);
        }
        for (file, said) in files.iter().filter(|(file, said)| self.files.get(*file) != Some(*said)) {
            self.contents.put(file, (said != "?").then(|| meaning(said)));
        }
        self.files = files;
        Look { folder: folder.parse().unwrap(), rest }
    }

    /// What is wished, without those canaries that could be deprecated.
    fn asks(&mut self, look: Look) -> Vec<String> {
        let wishes = self.contents.ask(look);
        for wish in &wishes {
            if let Wish::Deprecate { canary, .. } = wish {
                self.contents.forget(&Subject::Canary(canary.clone()));
            }
        }
        wishes.iter().map(word).collect()
    }
}

/// A folder that an earlier process has left with these canaries, and what is wished by each listing that follows.
fn course(left: &[(&str, &str)], steps: &[(&str, &[&str])]) {
    let mut folder = Folder::left_with(left);
    for (line, wished) in steps {
        let look = folder.becomes(line);
        assert_eq!(folder.asks(look), *wished, "{line} in {steps:#?}");
        let again = folder.asks(look);
        assert!(again.is_empty(), "{again:?} is wished again by {line} in {steps:#?}");
    }
}

#[test]
fn a_file_that_is_new_or_says_something_else_is_submitted() {
    course(
        &[],
        &[("1 none:", &[]), ("1 short:", &[]), ("1 none: a.yml=c2:10", &["submit c2 of a.yml, news"])],
    );
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10", &["submit c2 of a.yml, old"]),
            ("1 short: a.yml=c2:10", &[]),
            ("1 short: a.yml=c2:30", &["submit c2 of a.yml, news"]),
            ("1 short: a.yml=c2:30:Adopted", &["submit c2 of a.yml, news"]),
        ],
    );
    // Releases come first, whatever their files are called.
    course(
        &[],
        &[(
            "1 short: a.yml=c2:10 b.yml=c3:10 shop.yml=shop:1",
            &["submit shop of shop.yml, old", "submit c2 of a.yml, old", "submit c3 of b.yml, old"],
        )],
    );
    // A release and a canary of the same name are two.
    course(
        &[],
        &[
            ("1 short: a.yml=shop:1", &["submit shop of a.yml, old"]),
            ("1 short: a.yml=shop:1 b.yml=c2:10", &["submit c2 of b.yml, news"]),
        ],
    );
}

#[test]
fn what_is_read_first_is_no_news_however_long_that_takes() {
    course(
        &[],
        &[
            ("1 none: a.yml=c2:10", &["submit c2 of a.yml, old"]),
            ("1 none: a.yml=c2:10 b.yml=c3:10", &["submit c3 of b.yml, old"]),
            ("1 short: a.yml=c2:10 b.yml=c3:10", &[]),
            ("1 none: a.yml=c2:10 b.yml=c3:10 c.yml=c4:10", &["submit c4 of c.yml, news"]),
        ],
    );
}

#[test]
fn a_file_that_is_removed_deprecates_its_canary() {
    course(
        &[],
        &[
            (
                "1 short: a.yml=c2:10 shop.yml=shop:1",
                &["submit shop of shop.yml, old", "submit c2 of a.yml, old"],
            ),
            ("1 none: shop.yml=shop:1", &[]),
            ("1 long: shop.yml=shop:1", &["deprecate c2 of a.yml"]),
            // The release stays: others may name it.
            ("1 short:", &[]),
            ("1 none: a.yml=c2:10", &["submit c2 of a.yml, news"]),
            // In this folder it was seen that the last one left.
            ("1 long:", &["deprecate c2 of a.yml"]),
        ],
    );
    // What takes its place comes after.
    course(
        &[],
        &[
            ("1 short: b.yml=c2:10", &["submit c2 of b.yml, old"]),
            (
                "1 long: a.yml=c3:10 shop.yml=shop:2",
                &["submit shop of shop.yml, news", "deprecate c2 of b.yml", "submit c3 of a.yml, news"],
            ),
        ],
    );
    // A file that is about another canary by now is none of the first.
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10", &["submit c2 of a.yml, old"]),
            ("1 long: a.yml=c3:10", &["deprecate c2 of a.yml", "submit c3 of a.yml, news"]),
        ],
    );
}

#[test]
fn the_same_in_another_file_changes_nothing() {
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10", &["submit c2 of a.yml, old"]),
            ("1 short: b.yml=c2:10", &[]),
            // That it is in this one now isn't forgotten.
            ("1 short: b.yml=?", &[]),
            ("1 long: z.yml=?", &["deprecate c2 of b.yml"]),
        ],
    );
    // Two files that change places, one after the other.
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10 b.yml=c3:10", &["submit c2 of a.yml, old", "submit c3 of b.yml, old"]),
            ("1 none: a.yml=c3:10 b.yml=c3:10", &[]),
            ("1 none: a.yml=c3:10 b.yml=c2:10", &[]),
            ("1 short: a.yml=c3:10 b.yml=c2:10", &[]),
        ],
    );
}

#[test]
fn of_two_files_about_the_same_the_first_counts() {
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10 b.yml=c2:30", &["submit c2 of a.yml, old"]),
            ("1 short: a.yml=c2:10 b.yml=c2:50", &[]),
            // Once the first is gone, what the second says counts.
            ("1 short: b.yml=c2:50", &["submit c2 of b.yml, news"]),
            ("1 short: a.yml=c2:50 b.yml=c2:50", &[]),
        ],
    );
}

#[test]
fn a_file_that_cant_be_understood_deprecates_nobody() {
    course(
        &[],
        &[
            ("1 short: a.yml=c2:10", &["submit c2 of a.yml, old"]),
            ("1 long: a.yml=?", &[]),
            ("1 long: a.yml=c2:10", &[]),
            ("1 long: a.yml=?", &[]),
            ("1 short: a.yml=c2:20", &["submit c2 of a.yml, news"]),
            ("1 long: a.yml=?", &[]),
            ("1 long:", &["deprecate c2 of a.yml"]),
        ],
    );
}

#[test]
fn what_an_earlier_process_has_left_is_missed_in_a_folder_that_is_at_rest_and_not_empty() {
    let left = [("c2", "a.yml")];
    course(
        &left,
        &[
            ("1 long: b.yml=?", &[]),
            ("1 long: b.yml=c3:10", &["deprecate c2 of a.yml", "submit c3 of b.yml, news"]),
        ],
    );
    course(
        &left,
        &[
            ("1 none: shop.yml=shop:1", &["submit shop of shop.yml, old"]),
            // Perhaps the folder is being filled.
            ("1 short: shop.yml=shop:1", &[]),
            ("1 long: shop.yml=shop:1", &["deprecate c2 of a.yml"]),
        ],
    );
    // So looks one that isn't mounted.
    course(&left, &[("1 long:", &[]), ("2 long: a.yml=c2:10", &["submit c2 of a.yml, old"])]);
    // Its file can't be understood any more, or has another name.
    course(&left, &[("1 long: a.yml=?", &[]), ("1 long: a.yml=c2:20", &["submit c2 of a.yml, news"])]);
    course(&left, &[("1 long: b.yml=c2:10", &["submit c2 of b.yml, old"])]);
}

#[test]
fn another_folder_under_the_path_is_trusted_as_little() {
    let before =
        ("1 short: a.yml=c2:10 b.yml=c3:10", &["submit c2 of a.yml, old", "submit c3 of b.yml, old"][..]);
    // Its mount point, without it, and then it is back.
    course(&[], &[before, ("2 long:", &[]), ("3 none:", &[]), ("3 long: a.yml=c2:10 b.yml=c3:10", &[])]);
    // It comes back without one of them.
    course(
        &[],
        &[
            before,
            ("1 none: a.yml=c2:10 b.yml=c3:10", &[]),
            ("2 none:", &[]),
            ("2 short: a.yml=c2:10", &[]),
            ("2 long: a.yml=c2:10", &["deprecate c3 of b.yml"]),
            // What was seen in this one is missed at once.
            ("2 long:", &["deprecate c2 of a.yml"]),
        ],
    );
    // What says something else there than it did is news.
    course(&[], &[before, ("2 short: a.yml=c2:20 b.yml=c3:10", &["submit c2 of a.yml, news"])]);
    // A file that can't be understood was seen in this one, too.
    course(
        &[],
        &[before, ("2 short: a.yml=? b.yml=c3:10", &[]), ("2 long: b.yml=c3:10", &["deprecate c2 of a.yml"])],
    );
}

#[test]
fn what_is_in_doubt_is_named() {
    let mut folder = Folder::left_with(&[("c2", "a.yml"), ("c3", "b.yml")]);
    let look = folder.becomes("1 long:");
    assert_eq!(folder.asks(look), [""; 0]);
    assert_eq!(folder.contents.in_doubt(look), [("c2", "a.yml"), ("c3", "b.yml")]);
    assert!(folder.contents.in_doubt(Look { rest: Rest::Short, ..look }).is_empty());
    let look = folder.becomes("1 short: a.yml=c2:10");
    folder.asks(look);
    assert!(folder.contents.in_doubt(Look { rest: Rest::Long, ..look }).is_empty(), "it has a manifest");
    let mut gone = Folder { contents: folder.contents.clone(), files: folder.files.clone() };
    let look = gone.becomes("1 long:");
    assert_eq!(gone.asks(look), ["deprecate c2 of a.yml"]);
    assert_eq!(gone.contents.in_doubt(look), [("c3", "b.yml")], "the first was seen to leave");
    let look = folder.becomes("2 long:");
    assert_eq!(folder.asks(look), [""; 0]);
    assert_eq!(folder.contents.in_doubt(look), [("c2", "a.yml"), ("c3", "b.yml")]);
}

#[test]
fn what_could_not_be_deprecated_is_wished_again() {
    let mut folder = Folder::left_with(&[]);
    let look = folder.becomes("1 short: a.yml=c2:10 b.yml=c3:10");
    folder.asks(look);
    let look = folder.becomes("1 long:");
    let both = ["deprecate c2 of a.yml", "deprecate c3 of b.yml"];
    for _ in 0..2 {
        assert_eq!(folder.contents.ask(look).iter().map(word).collect::<Vec<_>>(), both);
    }
    let of = |canary: &str| Subject::Canary(canary.to_owned());
    folder.contents.forget(&of("c2"));
    assert_eq!(folder.contents.take_forgotten(), [of("c2")]);
    assert_eq!(folder.asks(look), ["deprecate c3 of b.yml"]);
    assert_eq!(folder.contents.take_forgotten(), [of("c3")]);
    // What is said isn't forgotten.
    let look = folder.becomes("1 short: a.yml=c2:10");
    folder.asks(look);
    folder.contents.forget(&of("c2"));
    assert_eq!(folder.contents.take_forgotten(), []);
}

#[test]
fn a_file_that_changes_costs_what_one_file_costs_however_many_there_are() {
    let named = |at: usize, version: i32| {
        let named = with(shop(), "/metadata/name", json!(format!("r{at}")));
        Meaning::from(Document::Release(release(&with(named, "/spec/version", json!(version)))))
    };
    let mut contents = Contents::default();
    for at in 0..1_000 {
        contents.put(&format!("r{at}.yml"), Some(named(at, 1)));
    }
    let wished = |contents: &mut Contents| {
        let before = steps::taken();
        let wishes = contents.ask(Look { folder: 1, rest: Rest::Long });
        (wishes.len(), steps::taken() - before)
    };
    assert_eq!(wished(&mut contents), (1_000, 1_000));
    assert_eq!(wished(&mut contents), (0, 0));
    contents.put("r500.yml", Some(named(500, 2)));
    assert_eq!(wished(&mut contents), (1, 1));
    // Looked at as one that has changed, and as one that is missing.
    contents.remove("r500.yml");
    assert_eq!(wished(&mut contents), (0, 2));
    assert_eq!(wished(&mut contents), (0, 0));
}

#[test]
fn what_is_hidden_and_what_editors_leave_is_no_manifest() {
    for name in ["a.yml", "a.yaml", "a.json", "a.b.yml", "a b.yml", "ä.yml"] {
        assert!(is_manifest(name), "{name}");
    }
    let others = [
        "",
        "yml",
        ".yml",
        ".a.yml",
        "..data",
        "a.yml~",
        ".a.yml.swp",
        "a.yml.tmp",
        "#a.yml#",
        "a.YML",
        "4913",
        "a.yml.bak",
    ];
    for name in others {
        assert!(!is_manifest(name), "{name}");
    }
}
