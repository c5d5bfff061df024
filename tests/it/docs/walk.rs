//! The sections of a page, typed one after the other, each in a folder of its own.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{self, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::{
    commands::{self, Command},
    file_ports::Ports,
    lexer::lex,
    page::{Block, Page, Section},
    terminal::Terminal,
};
use crate::{deadline::DEADLINE, real_agents::processes, source::repository};

const PROGRAM: &str = env!("CARGO_BIN_EXE_choirmaster");

/// What somebody has who has cloned the repository, as far as it is no program.
const FOLDERS: [&str; 3] = ["releases", "fns", "config"];

/// Where managers and proxies listen that are told nothing else.
const MANAGER: u16 = 9_991;
const PROXY: u16 = 8_000;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// States of releases that are not over.
const OPEN: [&str; 5] = ["Planned", "Running", "Paused", "AwaitingApproval", "RollingBack"];

/// What is done to a release that has got so far.
const ACTS: [&str; 11] = [
    "abort",
    "approve",
    "end-stage",
    "extend",
    "extend-analysis",
    "pause",
    "promote",
    "resume",
    "retry",
    "skip",
    "skip-stage",
];

/// Types all commands of a page.
pub fn run(page: &Page) {
    for section in &page.sections {
        let commands: Vec<Command> =
            section.blocks.iter().filter(|block| is_typed(block)).flat_map(commands::typed).collect();
        if commands.iter().any(|command| !is_of_repository(command)) {
            Walk::begin(section).run(section, &commands);
        }
    }
}

fn is_typed(block: &Block) -> bool {
    block.language == "sh"
}

/// The demo and the tests, which are run by themselves, and how one comes by the program.
fn is_of_repository(command: &Command) -> bool {
    let first = command.lexed.commands().into_iter().next().unwrap_or_default();
    matches!(
        first[..],
        ["cargo" | "tests/run", ..]
            | ["git", "clone", ..]
            | ["cd", "choirmaster"]
            | ["choirmaster", "demo", ..]
    )
}

struct Walk {
    folder: TempDir,
    ports: Ports,
    /// What the shell was told that holds for later lines: folders, variables, functions.
    told: String,
    terminals: Vec<Terminal>,
    /// Commands that end by themselves, at which somebody looks meanwhile.
    watching: Vec<(Terminal, i32)>,
    /// Simulated agents that were started.
    simulated: u64,
    /// Files with what was said.
    said: usize,
}

/// Who is below a manager.
#[derive(Debug)]
struct Known {
    children: usize,
    managers: usize,
    /// At it or further down.
    agents: u64,
}

/// Also what was left behind by those that were started.
impl Drop for Walk {
    fn drop(&mut self) {
        self.watching.clear();
        self.terminals.clear();
        processes::end_all(self.folder.path());
    }
}

impl Walk {
    fn begin(section: &Section) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "bin", "said"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(PROGRAM, folder.path().join("bin/choirmaster")).unwrap();
        let mut copy = process::Command::new("cp");
        copy.arg("-r").args(FOLDERS.map(|name| repository().join(name))).arg(folder.path().join("home"));
        assert!(copy.status().unwrap().success());
        let mut ports = Ports::default();
        ports.of(MANAGER);
        ports.of(PROXY);
        for block in section.blocks.iter().filter(|block| is_typed(block) || block.file().is_some()) {
            ports.learn(&block.text);
        }
        Self {
            folder,
            ports,
            told: String::new(),
            terminals: Vec::new(),
            watching: Vec::new(),
            simulated: 0,
            said: 0,
        }
    }

    fn run(mut self, section: &Section, commands: &[Command]) {
        let mut coming = commands.iter().enumerate().peekable();
        for block in &section.blocks {
            if let Some(file) = block.file() {
                self.write(file, &block.text);
            }
            let end = block.place.line + block.text.lines().count();
            while let Some((at, command)) = coming.next_if(|(_, command)| command.place.line < end) {
                self.type_in(command, &commands[at + 1..]);
            }
        }
        self.close();
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn write(&mut self, file: &str, text: &str) {
        let path = self.home().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.ports.in_file(text)).unwrap();
    }

    /// Gives the samples that a command names the ports of this section.
    fn adapt_samples(&mut self, words: &[&str]) {
        for word in words {
            let path = Path::new(word);
            let is_sample = FOLDERS.iter().any(|folder| path.starts_with(folder));
            if is_sample && self.home().join(path).is_file() {
                let original = fs::read_to_string(repository().join(path));
                let now = fs::read_to_string(self.home().join(path));
                if let (Ok(original), Ok(now)) = (original, now)
                    && original == now
                {
                    self.write(word, &original);
                }
            }
        }
    }

    /// `later`: what will be typed behind it.
    fn type_in(&mut self, command: &Command, later: &[Command]) {
        if is_of_repository(command) {
            return;
        }
        let calls = command.lexed.commands();
        self.adapt_samples(&calls.concat());
        let words = calls.first().cloned().unwrap_or_default();
        if let Some(program) = server(&words).filter(|_| command.code == 0) {
            return self.start(command, program, &words);
        }
        match words[..] {
            [] | ["export", ..] => self.set(command),
            ["cd", _] if calls.len() == 1 => self.tell(command),
            [name, ..] if command.text.contains(&format!("{name}() {{")) => self.tell(command),
            _ if command.lexed.is_in_background() => self.serve(command),
            ["choirmaster", "release", "watch", ..] => {
                let terminal = self.terminal(command);
                self.watching.push((terminal, command.code));
            }
            _ if command.code != 0 => self.ends(command),
            ["choirmaster", "release", "approve", release, ..] => {
                let is_last = !later.iter().any(|later| acts_on(later, release));
                self.approve(command, release, &words, is_last);
            }
            ["choirmaster", "release", act, release, ..] if ACTS.contains(&act) => {
                self.act(command, release, &words);
            }
            ["curl", ..] => self.until_it_succeeds(command, |_| true),
            _ if command.lexed.comment.contains("terminal") => self.serve(command),
            _ => self.ends(command),
        }
    }

    /// What goes on until the section ends.
    fn start(&mut self, command: &Command, program: &str, words: &[&str]) {
        match program {
            // It listens once the other manager has ended.
            "serve" if words.contains(&"--standby") => self.opens(command, ""),
            "serve" | "proxy" => self.opens(command, "listening on"),
            "fleet" => self.fleet(command, words),
            _ => self.agent(command, words),
        }
    }

    /// A shell that has been told what was typed before.
    fn shell(&mut self, text: &str) -> process::Command {
        let text = self.ports.in_command(text);
        // It gives its place to the command where it can, so that a signal reaches that.
        let exec = if lex(&text).is_simple() { "exec " } else { "" };
        let mut shell = process::Command::new("sh");
        let (home, bin) = (self.home(), self.folder.path().join("bin"));
        shell.args(["-c", &format!("{}{exec}{text}", self.told)]).current_dir(&home).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHOIRMASTER_")) {
            shell.env_remove(name);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let [manager, proxy] = [MANAGER, PROXY].map(|port| format!("127.0.0.1:{}", self.ports.of(port)));
        shell
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME")
            .env("USER", "reader")
            .env("NO_COLOR", "1")
            .env("CHOIRMASTER_URL", format!("http://{manager}"))
            .env("CHOIRMASTER_AGENT_STOP", "drain");
        // A variable would win over what the page has written into the file.
        for (variable, value, file, key) in [
            ("CHOIRMASTER_LISTEN", manager.clone(), "config/choirmaster.yml", "listen:"),
            ("CHOIRMASTER_PROXY_LISTEN", proxy.clone(), "config/proxy.yml", "listen:"),
            ("CHOIRMASTER_AGENT_PROXY_LISTEN", proxy, "config/agent.yml", "listen:"),
            ("CHOIRMASTER_AGENT_MANAGER_URL", format!("http://{manager}"), "config/agent.yml", "url:"),
        ] {
            if !self.is_set(&text, file, key) {
                shell.env(variable, value);
            }
        }
        shell
    }

    /// Whether the configuration that a command reads sets a key.
    fn is_set(&self, text: &str, usual: &str, key: &str) -> bool {
        let lexed = lex(text);
        let words = lexed.commands().concat();
        let file = flag(&words, "--config").unwrap_or(usual);
        let text = fs::read_to_string(self.home().join(file)).unwrap_or_default();
        text.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(key))
    }

    fn terminal(&mut self, command: &Command) -> Terminal {
        self.terminal_with(command, &command.text)
    }

    /// A terminal in which this is typed for a command.
    fn terminal_with(&mut self, command: &Command, text: &str) -> Terminal {
        self.said += 1;
        let output = self.folder.path().join("said").join(self.said.to_string());
        Terminal::open(&command.place, &command.text, &mut self.shell(text), &output)
    }

    /// Something that goes on until the section ends.
    fn opens(&mut self, command: &Command, ready: &str) {
        let mut terminal = self.terminal(command);
        terminal.until_said(ready);
        self.terminals.push(terminal);
    }

    fn ends(&mut self, command: &Command) {
        let mut terminal = self.terminal(command);
        let code = terminal.wait();
        assert_eq!(
            code,
            command.code,
            "{}: change the command, or say `# exit code {code}` behind it:\n{}",
            terminal.name(),
            terminal.text()
        );
    }

    /// Something of somebody else's that goes on, and listens at the ports that it names.
    fn serve(&mut self, command: &Command) {
        let typed = self.ports.in_command(&command.text);
        let mut terminal = self.terminal_with(command, command.in_foreground());
        for port in self.ports.named_in(&typed) {
            let answers = |_: &Terminal| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
            terminal.until(&format!("listened at port {port}"), answers);
        }
        self.terminals.push(terminal);
    }

    /// Types it again until it ends as it should. `may_yet`: whether it still may.
    fn until_it_succeeds(&mut self, command: &Command, may_yet: impl Fn(&mut Self) -> bool) {
        let began = Instant::now();
        loop {
            let mut terminal = self.terminal(command);
            let code = terminal.wait();
            if code == command.code {
                return;
            }
            let may_yet = may_yet(self) && began.elapsed() < DEADLINE;
            assert!(may_yet, "{} ends with {code}:\n{}", terminal.name(), terminal.text());
            sleep(PAUSE);
        }
    }

    /// What holds for later lines as it was typed.
    fn tell(&mut self, command: &Command) {
        self.told += &self.ports.in_command(&command.text);
        self.told.push('\n');
    }

    /// A variable, or several: what it is set to is found out once.
    fn set(&mut self, command: &Command) {
        let Some(name) = command.lexed.assigned().map(str::to_owned) else { return self.tell(command) };
        let output = self.shell(&format!("{}\nprintf %s \"${name}\"", command.text)).output().unwrap();
        let value = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && !value.is_empty(),
            "{}: `{}` sets nothing",
            command.place,
            command.text
        );
        let export = if command.text.starts_with("export") { "export " } else { "" };
        self.told += &format!("{export}{name}='{}'\n", value.replace('\'', "'\\''"));
    }

    /// What a command prints; `None`: it failed.
    fn asked(&mut self, command: &str) -> Option<String> {
        let output = self.shell(command).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn json(&mut self, command: &str) -> Option<Value> {
        serde_json::from_str(&self.asked(command)?).ok()
    }

    /// `None`: the manager doesn't say.
    fn known(&mut self, manager: &str) -> Option<Known> {
        let children = self.json(&format!("choirmaster children list --json --limit 100000{manager}"))?;
        let children = children.as_array()?;
        let is_agent = |child: &&Value| child["kind"] == "agent";
        let managers = children.iter().filter(|child| !is_agent(child));
        let below: u64 = managers.clone().filter_map(|manager| manager["agents"].as_u64()).sum();
        let (managers, agents) = (managers.count(), children.iter().filter(is_agent).count() as u64 + below);
        Some(Known { children: children.len(), managers, agents })
    }

    /// Waits until a manager knows enough, if it says what it knows.
    fn until_known(&mut self, command: &Command, manager: &str, is_enough: impl Fn(&Known) -> bool) {
        let began = Instant::now();
        while let Some(known) = self.known(manager)
            && !is_enough(&known)
        {
            let Command { place, text, .. } = command;
            assert!(began.elapsed() < DEADLINE, "{place}: `{text}`: the manager knows only {known:?}");
            sleep(PAUSE);
        }
    }

    fn fleet(&mut self, command: &Command, words: &[&str]) {
        if ["--for", "--until-idle"].iter().any(|option| words.contains(option)) {
            return self.ends(command);
        }
        if words.contains(&"--tree") {
            return self.opens(command, "the tree stands");
        }
        let agents = flag(words, "--agents").map_or(20, |agents| agents.parse().unwrap());
        let manager = options(words, &["--url"], "--url");
        let before = self.known(&manager).map_or(0, |known| known.agents);
        self.opens(command, "SIMULATED");
        self.until_known(command, &manager, |known| known.agents >= before + agents);
        self.simulated += agents;
        // They are also known further up.
        let all = self.simulated;
        self.until_known(command, "", |known| known.managers == 0 || known.agents >= all);
    }

    fn agent(&mut self, command: &Command, words: &[&str]) {
        let manager = options(words, &["--manager"], "--url");
        let before = self.known(&manager).map_or(0, |known| known.children);
        self.opens(command, "agent on ");
        let leads_router = ["router.kind", "proxy.start", "--config"];
        let has_proxy = !words.iter().any(|word| leads_router.iter().any(|key| word.starts_with(key)));
        let status = format!("choirmaster agent status{}", options(words, &["--control"], "--control"));
        let began = Instant::now();
        while has_proxy && !self.asked(&status).is_some_and(|said| said.contains("serves on")) {
            let terminal = self.terminals.last().unwrap();
            assert!(began.elapsed() < DEADLINE, "{}: no proxy serves:\n{}", terminal.name(), terminal.text());
            sleep(PAUSE);
        }
        self.until_known(command, &manager, |known| known.children > before);
    }

    fn state(&mut self, release: &str, words: &[&str]) -> String {
        let manager = options(words, &["--url", "--token-file"], "");
        let shown = self.json(&format!("choirmaster release show {release} --json{manager}"));
        shown.and_then(|shown| Some(shown["release"]["state"].as_str()?.to_owned())).unwrap_or_default()
    }

    /// When it is asked for. `is_last`: as often as it is asked for, until the release is over.
    fn approve(&mut self, command: &Command, release: &str, words: &[&str], is_last: bool) {
        let (began, mut approvals) = (Instant::now(), 0);
        let Command { place, text, .. } = command;
        loop {
            let state = self.state(release, words);
            if state == "AwaitingApproval" {
                self.ends(command);
                approvals += 1;
            } else if !OPEN.contains(&state.as_str()) {
                assert!(approvals > 0, "{place}: `{text}`: nothing was asked, and {release} is {state:?}");
                return;
            }
            if approvals > 0 && !is_last {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{place}: `{text}`: {release} is {state:?}");
            sleep(PAUSE);
        }
    }

    /// Once the release has got so far.
    fn act(&mut self, command: &Command, release: &str, words: &[&str]) {
        self.until_it_succeeds(command, |walk| OPEN.contains(&walk.state(release, words).as_str()));
    }

    /// Ctrl-C everywhere, the last opened first.
    fn close(&mut self) {
        for (mut terminal, code) in std::mem::take(&mut self.watching) {
            assert_eq!(terminal.wait(), code, "{}:\n{}", terminal.name(), terminal.text());
        }
        while let Some(mut terminal) = self.terminals.pop() {
            let is_ours =
                terminal.command.starts_with("choirmaster ") && !terminal.command.contains("--standby");
            if is_ours {
                terminal.interrupt();
            }
        }
    }
}

/// Which of the programs that go on until they are ended a command is.
fn server<'w>(words: &[&'w str]) -> Option<&'w str> {
    match *words {
        ["choirmaster", program @ ("serve" | "fleet"), ..] => Some(program),
        ["choirmaster", program @ ("agent" | "proxy"), ref rest @ ..] => {
            rest.first().is_none_or(|option| option.starts_with('-')).then_some(program)
        }
        _ => None,
    }
}

/// Whether a command does something to a release.
fn acts_on(command: &Command, release: &str) -> bool {
    let is_act = |words: &Vec<&str>| matches!(words[..], ["choirmaster", "release", act, of, ..] if of == release && ACTS.contains(&act));
    command.lexed.commands().iter().any(is_act)
}

/// The value of an option.
fn flag<'w>(words: &[&'w str], name: &str) -> Option<&'w str> {
    let behind = |(at, word): (usize, &&'w str)| match word.strip_prefix(name)? {
        "" => words.get(at + 1).copied(),
        rest => rest.strip_prefix('='),
    };
    words.iter().enumerate().find_map(behind)
}

/// Some options of a command, for another one, which may call them otherwise.
fn options(words: &[&str], names: &[&str], called: &str) -> String {
    let given = names.iter().filter_map(|name| Some((*name, flag(words, name)?)));
    let given =
        given.map(|(name, value)| [" ", if called.is_empty() { name } else { called }, " ", value].concat());
    given.collect::<Vec<_>>().concat()
}

#[test]
fn lines_are_typed_one_after_the_other_and_all_ends_with_the_section() {
    let text = r#"
## One

```text
# d/f.txt
first
```

```sh
export NAME="a b"
cd d
cat >> f.txt <<'END'
$NAME
END
grep -c . f.txt | grep 3
test "$NAME" = 'a b'   # and no other
false                  # exit code 1
python3 -m http.server 8123 --bind 127.0.0.1 &
curl -fsS http://127.0.0.1:8123/f.txt
```

## Two

```sh
test ! -e d/f.txt
test -e config/agent.yml
```
"#;
    run(&Page::of("page.md", text));
}

#[test]
#[should_panic(expected = "page.md:4: `false`: change the command, or say `# exit code 1` behind it")]
fn a_command_that_fails_is_named_with_its_place() {
    run(&Page::of("page.md", "## One\n\n```sh\nfalse\n```\n"));
}
