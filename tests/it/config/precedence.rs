//! Defaults, under the file, under variables, under flags.

use super::{complaint, load, value};

#[test]
fn each_source_wins_over_the_one_before() {
    let file = "limits: {max_children: 1, max_open_releases: 1, max_connections: 1}";
    let variables =
        [("CHOIRMASTER_LIMITS_MAX_OPEN_RELEASES", "2"), ("CHOIRMASTER_LIMITS_MAX_CONNECTIONS", "2")];
    let config = load(file, &variables, &[("limits.max_connections", "3")]).unwrap();
    assert_eq!(
        (config.limits.max_children, config.limits.max_open_releases, config.limits.max_connections),
        (1, 2, 3)
    );
}

#[test]
fn a_variable_has_a_long_name_and_some_a_short_one_too() {
    let config =
        load("", &[("CHOIRMASTER_LISTEN", "127.0.0.1:1"), ("CHOIRMASTER_LOG", "debug")], &[]).unwrap();
    assert_eq!(
        (value(&config, "serve.listen").as_str(), config.log.level.as_str()),
        ("127.0.0.1:1", "debug")
    );
    let both = [("CHOIRMASTER_SERVE_DATA", "/long"), ("CHOIRMASTER_DATA", "/short")];
    assert_eq!(value(&load("", &both, &[]).unwrap(), "serve.data"), "/long");
}

#[test]
fn variables_of_the_client_and_of_others_are_no_business_of_the_configuration() {
    let variables = [
        ("CHOIRMASTER_URL", "http://127.0.0.1:1"),
        ("CHOIRMASTER_TOKEN", "x"),
        ("CHOIRMASTER_CA", "ca.pem"),
        ("CHOIRMASTER_CONTEXT", "prod"),
        ("CHOIRMASTER_SERVICE_HOST", "10.0.0.1"),
        ("CHOIRMASTER_PORT_9991_TCP", "tcp://10.0.0.1:9991"),
        ("HOME", "/root"),
    ];
    load("", &variables, &[]).unwrap();
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let missing = std::path::Path::new("no/such/file.yml");
    let error = choirmaster::config::Config::load(Some(missing), [], &[]).unwrap_err();
    insta::assert_snapshot!(error, @r#"
    the configuration can't be used
      no/such/file.yml: can't be read: No such file or directory (os error 2)
    "#);
}

#[test]
fn an_empty_text_unsets_what_need_not_be_set() {
    let config = load("store: {max_size: 2MiB}", &[("CHOIRMASTER_STORE_MAX_SIZE", "")], &[]).unwrap();
    assert_eq!(config.store.max_size, None);
    insta::assert_snapshot!(complaint("", &[("CHOIRMASTER_LISTEN", "")], &[]), @r#"CHOIRMASTER_LISTEN: serve.listen: "" is no address with a port, as in 127.0.0.1:9991 or [::1]:9991"#);
}
