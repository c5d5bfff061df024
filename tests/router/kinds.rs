use router::Kind;

#[test]
fn kinds_are_written_each_in_one_way() {
    assert_eq!(Kind::ALL.map(Kind::name), ["embedded", "nginx", "haproxy"]);
}
