//! A page taken apart: its lines, its sections with their blocks, its links.

use std::{fmt, fs};

use crate::source::repository;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From the folder of the repository.
    pub page: String,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

/// Texts, each with where it begins.
pub type Placed = Vec<(Place, String)>;

/// What stands between fences.
#[derive(Debug, Clone)]
pub struct Block {
    /// Of its first line.
    pub place: Place,
    /// Behind the fence; may be empty.
    pub language: String,
    /// Each line with its end.
    pub text: String,
}

impl Block {
    pub fn is_yaml(&self) -> bool {
        matches!(self.language.as_str(), "yaml" | "yml")
    }

    /// The file that it is, if its first line names one.
    pub fn file(&self) -> Option<&str> {
        if matches!(self.language.as_str(), "sh" | "console") {
            return None;
        }
        let first = self.text.lines().next()?;
        let name = first.strip_prefix('#').or_else(|| first.strip_prefix("//"))?.trim();
        let is_path = name.contains(['.', '/'])
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
            && !name.starts_with(['/', '.'])
            && !name.contains("..");
        is_path.then_some(name)
    }
}

/// From one `##` to the next. The first one, before any, has no title.
#[derive(Debug, Clone)]
pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
}

#[derive(Debug)]
pub struct Line {
    pub place: Place,
    pub text: String,
    /// Of a block, fences among them.
    pub is_code: bool,
}

#[derive(Debug)]
pub struct Page {
    pub name: String,
    pub lines: Vec<Line>,
    pub sections: Vec<Section>,
}

/// In the place of what stands between backticks.
const LEFT_OUT: char = '\u{fffc}';

/// A block that is being read.
struct Open {
    ticks: usize,
    indent: usize,
    block: Block,
}

impl Page {
    /// `name`: from the folder of the repository.
    pub fn read(name: &str) -> Self {
        let text = fs::read_to_string(repository().join(name));
        Self::of(name, &text.unwrap_or_else(|error| panic!("{name} can't be read: {error}")))
    }

    pub fn of(name: &str, text: &str) -> Self {
        let section = |title: &str| Section { title: title.to_owned(), blocks: Vec::new() };
        let (mut lines, mut sections, mut open) = (Vec::new(), vec![section("")], None::<Open>);
        for (text, line) in text.lines().zip(1..) {
            let place = Place { page: name.to_owned(), line };
            let (ticks, behind) = fence(text);
            let is_code = open.is_some() || ticks > 0;
            if let Some(ended) = open.take_if(|open| ticks >= open.ticks && behind.is_empty()) {
                sections.last_mut().unwrap().blocks.push(ended.block);
            } else if let Some(open) = &mut open {
                let indent = text.len().min(open.indent);
                let (space, own) = text.split_at_checked(indent).unwrap_or((text, ""));
                open.block.text += if space.trim().is_empty() { own } else { text };
                open.block.text.push('\n');
            } else if ticks > 0 {
                let first = Place { line: line + 1, ..place.clone() };
                let block = Block { place: first, language: behind.to_owned(), text: String::new() };
                open = Some(Open { ticks, indent: text.len() - text.trim_start().len(), block });
            } else if let Some(title) = text.strip_prefix("## ") {
                sections.push(section(title));
            }
            lines.push(Line { place, text: text.to_owned(), is_code });
        }
        if let Some(open) = open {
            panic!("{}: the block that begins here has no end", open.block.place);
        }
        Self { name: name.to_owned(), lines, sections }
    }

    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.sections.iter().flat_map(|section| &section.blocks)
    }

    /// Lines outside of blocks.
    pub fn prose(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.is_code)
    }

    /// Titles, of whatever depth.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        let headings = self.prose().filter(|line| line.text.starts_with('#'));
        headings.map(|line| line.text.trim_start_matches('#').trim())
    }

    /// Lines outside of blocks without what stands between backticks, and that by itself. It may go on in the next line, and never in the
    /// next paragraph.
    fn divided(&self) -> (Placed, Placed) {
        let (mut plain, mut codes, mut open) = (Vec::new(), Vec::new(), None::<(Place, String)>);
        for line in &self.lines {
            if line.is_code || line.text.trim().is_empty() {
                open = None;
                continue;
            }
            let mut outside = String::new();
            for (index, part) in line.text.split('`').enumerate() {
                if index > 0 {
                    match open.take() {
                        Some(ended) => {
                            codes.push(ended);
                            outside.push(LEFT_OUT);
                        }
                        None => open = Some((line.place.clone(), String::new())),
                    }
                }
                open.as_mut().map_or(&mut outside, |(_, code)| code).push_str(part);
            }
            if let Some((_, code)) = &mut open {
                code.push(' ');
            }
            plain.push((line.place.clone(), outside));
        }
        (plain, codes)
    }

    /// What stands between backticks outside of blocks.
    pub fn inline_code(&self) -> Placed {
        self.divided().1
    }

    /// Lines outside of blocks, without what stands between backticks.
    pub fn plain_lines(&self) -> Placed {
        self.divided().0
    }

    /// Where its links lead to.
    pub fn links(&self) -> Placed {
        let of_line = |(place, text): (Place, String)| {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            targets.map(|target| (place.clone(), target.to_owned())).collect::<Vec<_>>()
        };
        self.plain_lines().into_iter().flat_map(of_line).collect()
    }
}

/// How many backticks a fence has, and what stands behind them; 0: it is none.
fn fence(line: &str) -> (usize, &str) {
    let behind = line.trim_start().trim_start_matches('`');
    let ticks = line.trim_start().len() - behind.len();
    if ticks < 3 || behind.contains('`') { (0, "") } else { (ticks, behind.trim()) }
}

/// The names of the Markdown files of a folder of the repository.
pub fn in_folder(folder: &str) -> Vec<String> {
    let paths = fs::read_dir(repository().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
}

/// The names of all pages, sorted.
pub fn all() -> Vec<String> {
    let mut all: Vec<String> = in_folder("docs").iter().map(|name| format!("docs/{name}")).collect();
    all.push("README.md".to_owned());
    all.sort_unstable();
    all
}

#[test]
fn a_page_is_taken_apart_with_the_place_of_everything() {
    let text = "# A\n\n`one\ntwo` [x](y.md#z)\n\n## B\n\n- c\n  ```yaml\n  # d/e.yml\n  f: 1\n  ```\n\n```sh\ng `h`\n```\n";
    let page = Page::of("p.md", text);
    assert_eq!(page.headings().collect::<Vec<_>>(), ["A", "B"]);
    let place = |line| Place { page: "p.md".to_owned(), line };
    assert_eq!(page.inline_code(), [(place(3), "one two".to_owned())]);
    assert_eq!(page.links(), [(place(4), "y.md#z".to_owned())]);
    let blocks: Vec<_> =
        page.blocks().map(|block| (block.place.line, block.file(), block.text.as_str())).collect();
    assert_eq!(blocks, [(10, Some("d/e.yml"), "# d/e.yml\nf: 1\n"), (15, None, "g `h`\n")]);
    let titles: Vec<_> =
        page.sections.iter().map(|section| (section.title.as_str(), section.blocks.len())).collect();
    assert_eq!(titles, [("", 0), ("B", 2)]);
}
