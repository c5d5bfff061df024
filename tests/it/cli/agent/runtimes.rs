//! What is set of an agent's runtimes.

use agent::{runtime::process::cgroup::Cgroups, runtime::tinyfaas::Form, settings::Runtimes};

use super::{
    super::{code, err, run},
    settings::set,
};

fn runtimes(keys: &[(&str, &str)]) -> Runtimes {
    set(keys).unwrap().into_agent("/bin/choirmaster".into()).runtimes
}

#[test]
fn what_is_set_reaches_each_runtime() {
    let set = runtimes(&[
        ("runtimes.enabled", "webhook,tinyfaas, oci"),
        ("process.cgroups", "/sys/fs/cgroup/agent"),
        ("tinyfaas.management", "10.0.0.1:8080"),
        ("tinyfaas.calls", "[::1]:80"),
        ("tinyfaas.prefix", "edge1"),
        ("tinyfaas.threads", "3"),
        ("tinyfaas.forms", "python3, go"),
        ("tinyfaas.patience", "90s"),
        ("webhook.url", "https://faas.example.org/agent"),
        ("webhook.secret_file", "/etc/secret"),
        ("webhook.agent", "edge-1"),
        ("webhook.sends_content", "false"),
        ("webhook.runners", "wasm, python3"),
        ("webhook.patience", "5s"),
        ("oci.program", "/usr/sbin/runc"),
        ("oci.podman_runtime", "crun"),
        ("oci.rootfs", "/srv/rootfs"),
        ("oci.binds", "/usr, /lib"),
        ("oci.ports", "1024-1030"),
        ("wasm.memory", "8MiB"),
        ("wasm.calls", "7"),
        ("wasm.compute", "2s"),
        ("wasm.time", "1h"),
        ("wasm.outgoing", "API.example.org, [::1]:8080"),
    ]);
    assert_eq!(set.enabled, ["webhook", "tinyfaas", "oci"]);
    assert_eq!(set.cgroups, Cgroups::Below("/sys/fs/cgroup/agent".into()));
    let tiny = set.tinyfaas;
    assert_eq!(
        (tiny.management, tiny.calls),
        ("10.0.0.1:8080".parse().unwrap(), "[::1]:80".parse().unwrap())
    );
    assert_eq!((tiny.prefix.as_str(), tiny.threads, tiny.time_limit.as_secs()), ("edge1", 3, 90));
    assert_eq!(tiny.forms, [Form::Python, Form::Go]);
    let hook = set.webhook;
    assert_eq!((hook.url.as_str(), hook.agent.as_str()), ("https://faas.example.org/agent", "edge-1"));
    assert_eq!(hook.secret_file, Some("/etc/secret".into()));
    assert_eq!(
        (hook.sends_content, hook.runners, hook.time_limit.as_secs()),
        (false, vec!["wasm".to_owned(), "python3".to_owned()], 5)
    );
    let wasm = set.wasm;
    assert_eq!((wasm.memory, wasm.calls, wasm.compute.as_secs(), wasm.time.as_secs()), (8 << 20, 7, 2, 3600));
    assert_eq!(wasm.outgoing, ["api.example.org", "[::1]:8080"].map(|host| host.parse().unwrap()));
    let oci = set.oci;
    assert_eq!((oci.program.as_str(), oci.podman_runtime.as_str()), ("/usr/sbin/runc", "crun"));
    assert_eq!((oci.rootfs, oci.image.as_str()), (Some("/srv/rootfs".into()), ""));
    assert_eq!((oci.binds, oci.ports), (vec!["/usr".into(), "/lib".into()], (1024, 1030)));
}

#[test]
fn a_runtime_that_is_enabled_is_refused_without_what_it_needs() {
    let said = set(&[("runtimes.enabled", "webhook, oci, tinyfaas, tinyfas, oci"), ("tinyfaas.forms", "")])
        .unwrap_err();
    for part in [
        "webhook.url: the runtime webhook needs an address",
        "webhook.secret_file: the runtime webhook needs a file",
        "webhook.runners: name the forms",
        "webhook.agent: say what this agent is called there, or set agent.name",
        "oci.rootfs: the runtime oci needs a root file system",
        "tinyfaas.forms: name at least one",
        "runtimes.enabled: there is no runtime \"tinyfas\"; there are oci, process, tinyfaas, wasm, webhook; did you mean tinyfaas?",
        "runtimes.enabled: oci is there twice",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let said = set(&[
        ("runtimes.enabled", "process, oci, webhook, wasmtime"),
        ("process.cgroups", "on"),
        ("tinyfaas.forms", "python, wasm"),
        ("tinyfaas.threads", "0"),
        ("webhook.url", "https://ann:hidden@faas.example.org"),
        ("oci.rootfs", "/srv/rootfs"),
        ("oci.binds", "lib"),
        ("oci.ports", "29999-30010"),
        ("wasm.memory", "1KiB"),
        ("wasm.calls", "0"),
        ("wasm.compute", "1ms"),
        ("wasm.outgoing", "10.0.0.1, https://api.example.org"),
    ])
    .unwrap_err();
    for part in [
        "process.cgroups: \"on\" is neither auto nor off nor a folder",
        "tinyfaas.forms: tinyFaaS has no form \"wasm\"; it has binary, go, nodejs, python",
        "tinyfaas.threads: 0 is not from 1 to 1000",
        "webhook.url: it holds a name or a password",
        "oci.binds: lib does not begin with a slash",
        "oci.ports: some are those of runtimes.ports too",
        "runtimes.enabled: there is no runtime \"wasmtime\"; there are oci, process, tinyfaas, wasm, webhook",
        "wasm.memory: 1KiB is not from 64KiB to 4GiB",
        "wasm.calls: 0 is not from 1 to 100000",
        "wasm.compute: 1ms is not from 10ms to 1d",
        "wasm.outgoing: \"https://api.example.org\" is no host, as in api.example.org, 10.0.0.1:8080 or [::1]:80",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("hidden"), "{said}");
}

/// `tests/wasm` tries it in a program that has the feature.
#[cfg(not(feature = "wasm"))]
#[test]
fn components_are_refused_by_a_program_that_was_built_without_what_serves_them() {
    let said = set(&[("runtimes.enabled", "wasm")]).unwrap_err();
    let expected = "runtimes.enabled: wasm: this program was built without the feature `wasm`: build it with \
        `cargo build --release --features wasm`";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn containers_have_one_base_and_a_program_that_can_run_it() {
    let oci = |keys: &[(&str, &str)]| set(&[&[("runtimes.enabled", "oci")], keys].concat());
    for fits in [
        &[("oci.image", "base:1")] as &[_],
        &[("oci.program", "podman")],
        &[("oci.program", "/opt/bin/podman-5"), ("oci.rootfs", "/srv/rootfs")],
        &[("oci.program", "runc"), ("oci.rootfs", "/srv/rootfs")],
    ] {
        assert!(oci(fits).is_ok(), "{fits:?}");
    }
    for (keys, part) in [
        (
            &[("oci.program", "runc"), ("oci.image", "base")] as &[_],
            "oci.rootfs: the runtime oci needs a root",
        ),
        (&[("oci.rootfs", "/srv"), ("oci.image", "base")], "oci.image: oci.rootfs is set too"),
        (&[("oci.image", "--all")], "oci.image, oci.podman_runtime: these are no names"),
        (
            &[("oci.program", "docker"), ("oci.rootfs", "/srv")],
            "oci.program: docker is neither runc nor podman",
        ),
    ] {
        let said = oci(keys).unwrap_err();
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn what_is_set_of_a_runtime_that_is_not_enabled_is_not_looked_at() {
    let set = runtimes(&[("webhook.url", "nowhere"), ("oci.ports", "20000-20001"), ("tinyfaas.forms", "")]);
    assert_eq!(set.enabled, ["process"]);
    let named = [
        ("runtimes.enabled", "webhook"),
        ("agent.name", "edge-1"),
        ("webhook.url", "http://127.0.0.1:1/"),
        ("webhook.secret_file", "secret"),
        ("webhook.runners", "python"),
    ];
    assert_eq!(runtimes(&named).webhook.agent, "", "it is called as at its manager");
}

#[test]
fn a_runtime_that_can_not_be_opened_ends_the_start_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("secret"), "short\n").unwrap();
    let refused = |keys: &[(&str, &str)]| {
        let keys = keys.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]);
        let output = run(folder.path(), ["agent".to_owned()].into_iter().chain(keys));
        assert_eq!(code(&output), 1);
        err(&output)
    };
    let hook = |more: &[(&str, &str)]| {
        let given = [
            ("runtimes.enabled", "webhook"),
            ("webhook.url", "https://faas.example.org"),
            ("webhook.agent", "edge-1"),
            ("webhook.runners", "python"),
        ];
        refused(&[&given, more].concat())
    };
    let said = hook(&[("webhook.secret_file", &path("none"))]);
    assert!(said.contains("setting `webhook.secret_file`") && said.contains("No such file"), "{said}");
    let said = hook(&[("webhook.secret_file", &path("secret"))]);
    assert!(said.contains("setting `webhook.secret_file`: it has less than 16 bytes"), "{said}");
    assert!(!said.contains("short"), "{said}");
    std::fs::write(path("secret"), "0123456789abcdef\n").unwrap();
    let said = hook(&[("webhook.secret_file", &path("secret")), ("webhook.url", "http://faas.example.org")]);
    assert!(said.contains("setting `webhook.url`: only an address of this machine"), "{said}");
    let said = refused(&[("runtimes.enabled", "oci"), ("oci.rootfs", &path("none"))]);
    assert!(said.contains("setting `oci.rootfs`") && said.contains("No such file"), "{said}");
    let file = path("secret");
    let said =
        refused(&[("runtimes.enabled", "oci"), ("oci.rootfs", &path("")), ("oci.program", &path("runc"))]);
    assert!(said.contains("setting `oci.program`") && said.contains("No such file"), "{said}");
    let said = refused(&[("runtimes.enabled", "oci"), ("oci.rootfs", &path("")), ("oci.binds", &file)]);
    assert!(said.contains("setting `oci.binds`") && said.contains("it is no folder"), "{said}");
    let said = refused(&[("runtimes.enabled", "process, tinyfaas"), ("tinyfaas.prefix", "Edge")]);
    assert!(said.contains("setting `tinyfaas.prefix`: \"Edge\" is not 1 to 16"), "{said}");
}
