//! Every fault is found, named and placed.

use super::complaint;

#[test]
fn unknown_keys_and_sections_are_refused_where_they_stand_with_the_nearest_known() {
    let text = "limits:\n  max_childs: 5\n  max_children: 7\ndeadline:\n  stage: 1h\nnonsense:\n  x: 1\nserve:\n  max_connections: 9\nlog:\n  colour: red\n";
    insta::assert_snapshot!(complaint(text, &[], &[]), @r#"
    c.yml:2:3: there is no key "limits.max_childs"; did you mean limits.max_children?
    c.yml:4:1: there is no section "deadline"; did you mean deadlines?
    c.yml:6:1: there is no section "nonsense"; there are serve, http, page, store, functions, limits, deadlines, timeouts, audit, history, log, auth, tls, child_tls, notify, parent, routers, services, canaries, placement, mirror, analysis
    c.yml:9:3: there is no key "serve.max_connections"; did you mean limits.max_connections?
    c.yml:11:3: there is no key "log.colour"; config/choirmaster.yml lists all of them
    "#);
}

#[test]
fn keys_of_the_original_release_manager_are_answered_with_ours() {
    let text = "log_level: \"debug\"\nip_address: \"localhost\"\nport: \"8080\"\nhost: \"localhost\"\nservice_area: '{}'\nparent:\n  host: \"localhost\"\n  port: \"8081\"\nserve: 8080\n";
    insta::assert_snapshot!(complaint(text, &[], &[]), @r#"
    c.yml:1:1: there is no section "log_level"; here it is level: of the section log
    c.yml:2:1: there is no section "ip_address"; here it is listen: of the section serve, as in 127.0.0.1:8080
    c.yml:3:1: there is no section "port"; here it is listen: of the section serve, as in 127.0.0.1:8080
    c.yml:4:1: there is no section "host"; here it is listen: of the section serve, as in 127.0.0.1:8080
    c.yml:5:1: there is no section "service_area"; here the area stands in a file of its own, which area_file: of the section parent names; also for a manager without a parent
    c.yml:7:3: there is no key "parent.host"; here it is parent.url, as in http://127.0.0.1:8080
    c.yml:8:3: there is no key "parent.port"; here it is parent.url, as in http://127.0.0.1:8080
    c.yml:9:1: serve is a section: write its keys below it, indented
    "#);
}

#[test]
fn unknown_variables_and_flags_are_refused_too() {
    let variables = [("CHOIRMASTER_LIMITS_MAX_CHILDRENS", "5"), ("CHOIRMASTER_MAX_CHILDREN", "5")];
    insta::assert_snapshot!(complaint("", &variables, &[("limit.max_children", "5")]), @r#"
    CHOIRMASTER_LIMITS_MAX_CHILDRENS: no such variable; did you mean CHOIRMASTER_LIMITS_MAX_CHILDREN?
    CHOIRMASTER_MAX_CHILDREN: no such variable; did you mean CHOIRMASTER_LIMITS_MAX_CHILDREN?
    --set: there is no key "limit.max_children"; did you mean limits.max_children?
    "#);
}

#[test]
fn each_value_that_is_none_is_named_with_what_it_should_look_like() {
    let text = "serve: {listen: localhost, standby: maybe}\nlimits: {max_children: many, max_open_releases: -1, max_connections: 0}\ndeadlines: {stage: 1w, offer: 1ms}\nstore: {max_size: 1KiB}\nfunctions: {max_upload: 1MB}\nlog: {format: xml}\nnotify: {webhooks: example.org}\n";
    insta::assert_snapshot!(complaint(text, &[], &[]), @r#"
    c.yml:1:9: serve.listen: "localhost" is no address with a port, as in 127.0.0.1:9991 or [::1]:9991
    c.yml:1:28: serve.standby: "maybe" is neither true nor false
    c.yml:2:10: limits.max_children: "many" is no whole number
    c.yml:2:30: limits.max_open_releases: "-1" is no whole number
    c.yml:2:53: limits.max_connections: 0 is not from 1 to 1000000
    c.yml:3:13: deadlines.stage: "1w" is no duration, as in 90d, 24h, 1h30m or 500ms
    c.yml:3:24: deadlines.offer: 1ms is not from 1s to 3650d
    c.yml:4:9: store.max_size: 1KiB is not from 1MiB to 16TiB
    c.yml:5:13: functions.max_upload: "1MB" is no size, as in 64MiB, 512KiB or 4096
    c.yml:6:7: log.format: "xml" is neither human nor json
    c.yml:7:10: notify.webhooks: an address looks like https://example.org/hook; several are separated by commas
    "#);
}

#[test]
fn what_is_no_yaml_of_sections_is_refused_with_its_place() {
    for (text, place) in [
        ("serve:\n  listen: [127.0.0.1:1]\n", "c.yml:2:"),
        ("serve\n", "c.yml:1:1"),
        ("- serve\n", "c.yml:1:1"),
        ("serve:\n  data: a\n  data: b\n", "c.yml:3:"),
        ("serve: {data: \n", "c.yml:"),
    ] {
        let complaint = complaint(text, &[], &[]);
        assert!(complaint.starts_with(place), "{text:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_an_operators_token() {
    insta::assert_snapshot!(complaint("serve: {listen: 0.0.0.0:9991}", &[], &[]), @"serve.listen: 0.0.0.0:9991 can be reached by others, and whoever reaches it could release: put an operator's token into a file and name it in auth.operator_token_file (or set CHOIRMASTER_AUTH_OPERATOR_TOKEN), or listen on 127.0.0.1; children alone can call from elsewhere at serve.child_listen");
    let token = [("CHOIRMASTER_AUTH_OPERATOR_TOKEN", "0123456789abcdef")];
    super::load("serve: {listen: '[::]:9991'}", &token, &[]).unwrap();
    super::load("serve: {child_listen: 0.0.0.0:9992}", &[], &[]).unwrap();
}

#[test]
fn keys_that_do_not_go_together_are_named() {
    let text = "tls: {certificate: a.pem}\nchild_tls: {client_ca: b.pem}\nauth: {child_token_required: true}\nstore: {url: 'sqlite://a', url_file: b}\nfunctions: {max_file: 1GiB}\nlog: {level: 'choirmaster=loud'}";
    insta::assert_snapshot!(complaint(text, &[], &[]), @r#"
    functions.max_file: is more than max_unpacked, the limit of all files together
    log.level: "choirmaster=loud" can't be read: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5; it looks like info, debug or info,engine=debug
    auth.child_token_required: without auth.child_token_file or auth.join_token_file no child could ever call
    tls.key: is missing: the certificate needs its private key
    child_tls.client_ca: needs certificate and key beside it
    store.url_file: and store.url are both set: keep one
    "#);
}

#[test]
fn a_history_is_kept_for_a_day_at_least_or_for_ever() {
    let set = |value| complaint("", &[], &[("history.retention", value)]);
    insta::assert_snapshot!(set("1h"), @"--set: history.retention: 1h is not from 1d to 3650d");
    let config = choirmaster::config::Config::from_text("history:\n  retention: 30d\n", "c.yml").unwrap();
    assert_eq!(config.history.retention, Some(std::time::Duration::from_hours(30 * 24)));
    let config = choirmaster::config::Config::from_text("history:\n  retention:\n", "c.yml").unwrap();
    assert_eq!(config.history.retention, None);
}
