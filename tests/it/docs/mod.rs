//! README.md and `docs/`: whatever they show is tried.
//!
//! | block | what is done with it |
//! |---|---|
//! | `sh` | each line is typed, in a folder that is the section's own ([`walk`]) |
//! | `console` | is only shown; each `choirmaster` command in it must be one, with its flags ([`commands`]) |
//! | `yaml`, `yml` | is read by what reads such a file ([`yaml`]); with a name of a file in its first line, as in `# canary.yml`, it is that file |
//! | any other | with a name of a file in its first line (`# fns/hello/handler.py`, `// fns/hello/index.js`), it is that file |
//!
//! A section (`##`) starts with copies of the folders `releases`, `fns` and `config`, with the program on the path, and with nothing
//! that runs. Its blocks follow each other in their order. All that they start ends with the section.
//!
//! What a person does by looking is done by asking: a command is typed when what was started before answers, an approval is given when
//! it is asked for, and a call is made again until it succeeds. Ports are replaced by free ones.

mod commands;
mod file_ports;
mod form;
mod lexer;
pub mod page;
mod terminal;
mod walk;
mod yaml;

use self::page::Page;

/// Tests of each page. In `tests/tiers` stands which pages have their commands run by `tests/run --all` alone.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];

        $(mod $name {
            use super::{Page, commands, walk, yaml};

            #[test]
            fn its_blocks_are_valid() {
                let page = Page::read($page);
                commands::check(&page);
                yaml::check(&page);
            }

            #[test]
            fn its_commands_run() {
                walk::run(&Page::read($page));
            }
        })*
    };
}

pages! {
    readme: "README.md",
    index: "docs/README.md",
    ab_releases: "docs/ab-releases.md",
    agent: "docs/agent.md",
    analysis: "docs/analysis.md",
    aws_alb: "docs/aws-alb.md",
    benchmarks: "docs/benchmarks.md",
    canary_releases: "docs/canary-releases.md",
    custom_router: "docs/custom-router.md",
    functions: "docs/functions.md",
    hybrid: "docs/hybrid.md",
    language: "docs/language.md",
    language_services: "docs/language-services.md",
    limits: "docs/limits.md",
    mirror: "docs/mirror.md",
    operating: "docs/operating.md",
    proxy: "docs/proxy.md",
    registered_releases: "docs/registered-releases.md",
    routers: "docs/routers.md",
    runbook: "docs/runbook.md",
    services: "docs/services.md",
    strategies: "docs/strategies.md",
    taking_over_a_port: "docs/taking-over-a-port.md",
    tree: "docs/tree.md",
    workflows: "docs/workflows.md",
}

#[test]
fn each_page_has_its_tests() {
    let mut listed: Vec<&str> = PAGES.to_vec();
    listed.sort_unstable();
    assert_eq!(page::all(), listed, "tests/it/docs/mod.rs lists the pages that there are");
}
