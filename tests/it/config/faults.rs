//! Every fault is found, named and placed.

use super::complaint;

#[test]
fn unknown_keys_and_sections_are_refused_where_they_stand_with_the_nearest_known() {
    let text = "limits:\n  max_childs: 5\n  max_children: 7\ndeadline:\n  stage: 1h\nnonsense:\n  x: 1\nserve:\n  max_connections: 9\nlog:\n  colour: red\n";
    insta::assert_snapshot!(complaint(text, &[], &[]), @"");
}

#[test]
fn unknown_variables_and_flags_are_refused_too() {
    let variables = [("CHOIRMASTER_LIMITS_MAX_CHILDRENS", "5"), ("CHOIRMASTER_MAX_CHILDREN", "5")];
    insta::assert_snapshot!(complaint("", &variables, &[("limit.max_children", "5")]), @"");
}

#[test]
fn each_value_that_is_none_is_named_with_what_it_should_look_like() {
    let text = "serve: {listen: localhost, standby: maybe}\nlimits: {max_children: many, max_open_releases: -1, max_connections: 0}\ndeadlines: {stage: 1w, offer: 1ms}\nstore: {max_size: 1KiB}\nfunctions: {max_upload: 1MB}\nlog: {format: xml}\nnotify: {webhooks: example.org}\n";
    insta::assert_snapshot!(complaint(text, &[], &[]), @"");
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
    insta::assert_snapshot!(complaint("serve: {listen: 0.0.0.0:9991}", &[], &[]), @"");
    let token = [("CHOIRMASTER_AUTH_OPERATOR_TOKEN", "0123456789abcdef")];
    super::load("serve: {listen: '[::]:9991'}", &token, &[]).unwrap();
    super::load("serve: {child_listen: 0.0.0.0:9992}", &[], &[]).unwrap();
}

#[test]
fn keys_that_do_not_go_together_are_named() {
    let text = "tls: {certificate: a.pem}\nchild_tls: {client_ca: b.pem}\nauth: {child_token_required: true}\nstore: {url: 'sqlite://a', url_file: b}\nfunctions: {max_file: 1GiB}\nlog: {level: 'choirmaster=loud'}";
    insta::assert_snapshot!(complaint(text, &[], &[]), @"");
}
