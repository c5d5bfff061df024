//! The samples within the program are those of the repository.

use std::{collections::BTreeMap, fs, path::Path};

use choirmaster::cli::demo::samples::{FILES, SAMPLES, TREE_SAMPLES, write_functions};
use language::check_bytes;

use super::repository;

fn files(root: &Path, folder: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let path = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
        if root.join(&path).is_dir() {
            files(root, &path, found);
        } else {
            found.insert(path.clone(), fs::read(root.join(&path)).unwrap());
        }
    }
}

#[test]
fn demo_contains_all_functions_and_all_samples_any_fleet_runs() {
    let (mut functions, mut releases) = (BTreeMap::new(), BTreeMap::new());
    files(&repository(), "fns", &mut functions);
    files(&repository(), "releases", &mut releases);
    // Workflows are for nodes, and the agents of a demo are none.
    functions.retain(|path, _| !["fns/messages/", "fns/vector_mul/"].iter().any(|of| path.starts_with(of)));
    // What names places, or waits for somebody's word, is for a fleet of one's own.
    releases.retain(|_, text| {
        let strategy = check_bytes(text).strategy.unwrap();
        strategy.target.is_none() && strategy.rollout.is_none()
    });
    let embedded: BTreeMap<String, Vec<u8>> =
        FILES.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
    assert_eq!(embedded, functions);
    let embedded: BTreeMap<String, Vec<u8>> = SAMPLES
        .iter()
        .map(|sample| (format!("releases/{}", sample.file), sample.text.as_bytes().to_vec()))
        .collect();
    assert_eq!(embedded, releases);
}

#[test]
fn the_samples_of_the_tree_have_the_names_of_their_files() {
    for sample in TREE_SAMPLES {
        assert_eq!(language::check(sample.text).strategy.unwrap().id.as_str(), sample.id());
    }
}

#[test]
fn every_sample_can_be_packed_from_the_functions_that_the_demo_writes() {
    let folder = tempfile::tempdir().unwrap();
    write_functions(folder.path()).unwrap();
    for text in SAMPLES.iter().map(|sample| sample.text).chain(TREE_SAMPLES.map(|sample| sample.text)) {
        let strategy = language::check(text).strategy.unwrap();
        let limits = language::functions::Limits::default();
        language::functions::from_folder(folder.path(), &strategy, &limits).unwrap();
    }
}
