//! Providers and templates stand in files of their own.

use std::path::Path;

use language::check_at;

use super::load;

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn providers_and_templates_are_read_from_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        write(folder.path(), "p.yml", "providers: {prom: {type: prometheus, url: 'http://127.0.0.1:9090'}}");
    let template =
        |name: &str| format!("metrics: {{{name}: {{provider: prom, query: up, expected: {{min: 1}}}}}}");
    write(folder.path(), "t/a.yml", &template("a"));
    write(folder.path(), "t/b.yaml", &template("b"));
    write(folder.path(), "t/notes.txt", "no template");
    let text =
        format!("analysis: {{providers: '{file}', templates: '{}'}}", folder.path().join("t").display());
    let site = load(&text, &[], &[]).unwrap().analysis.site().unwrap();
    assert_eq!(site.providers.names().collect::<Vec<_>>(), ["prom"]);
    assert_eq!(site.templates.names().collect::<Vec<_>>(), ["a", "b"]);
    let block =
        "    analysis: {duration: 10m, interval: 1m, metrics: [{template: {name: b}}]}\n    end_action:\n";
    let text = crate::reference::REFERENCE.replacen("    end_action:\n", block, 1);
    assert!(check_at(text.as_bytes(), &site).strategy.is_some());
    let nothing = load("", &[], &[]).unwrap().analysis.site().unwrap();
    assert_eq!((nothing.providers.names().count(), nothing.templates.names().count()), (0, 0));
}

#[test]
fn every_fault_of_the_files_is_reported_at_once_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "p.yml",
        "providers:\n  prom: {type: prometheus, urll: 'http://127.0.0.1:9090'}\n",
    );
    write(folder.path(), "t/a.yml", "metrics:\n  a: {provider: prom}\n");
    write(folder.path(), "t/b.yml", "metrics:\n  a: {provider: prom}\n");
    write(folder.path(), "t/c.yml", "metrics: [");
    let text =
        format!("analysis: {{providers: '{file}', templates: '{}'}}", folder.path().join("t").display());
    let error = load(&text, &[], &[]).unwrap().analysis.site().unwrap_err().to_string();
    let error = error.replace(&folder.path().display().to_string(), "");
    insta::assert_snapshot!(error, @r#"
    the configuration can't be used
      /p.yml:2:28: provider "prom" has no key "urll"; did you mean url?
      /t/b.yml:2:3: there is a template "a" already; rename one of them
      /t/c.yml:1:10: not readable as YAML: the [ that is opened here is never closed; write ] where it ends
    "#);
    let away = load("analysis: {providers: /no/such.yml, templates: /no/such}", &[], &[]).unwrap();
    insta::assert_snapshot!(away.analysis.site().unwrap_err().to_string(), @r#"
    the configuration can't be used
      analysis.providers: /no/such.yml can't be read: No such file or directory (os error 2)
      analysis.templates: /no/such can't be read: No such file or directory (os error 2)
    "#);
}
