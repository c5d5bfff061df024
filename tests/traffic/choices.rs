use std::net::{IpAddr, Ipv4Addr};

use traffic::{Call, Choice, HashFunction, HeaderRule, Shares, Sticky, Table, Variation, choose};

#[derive(Default)]
struct From {
    header: Option<(&'static str, String)>,
    cookie: Option<(&'static str, String)>,
    last_octet: u8,
}

impl Call for From {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.header
            .as_ref()
            .filter(|(here, _)| here.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_bytes())
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.cookie.as_ref().filter(|(here, _)| *here == name).map(|(_, value)| value.as_bytes())
    }

    fn address(&self) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, self.last_octet).into()
    }
}

fn table(second: u16) -> Table {
    Table::new(&Shares::new([10_000 - second, second]).unwrap())
}

fn ask(table: &Table, sticky: Option<&Sticky>, call: &From, drawn: u64) -> Choice {
    let rule = HeaderRule { name: "X-Variation".into(), values: vec![("B".into(), Variation(1))] };
    choose((table, HashFunction::Murmur2, b"salt"), (Some(&rule), sticky), call, || drawn)
}

#[test]
fn a_caller_without_a_cookie_is_given_one_with_which_the_choice_stays() {
    let (sticky, table) = (Sticky::Cookie("cm".into()), table(5000));
    for drawn in (0..2_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let first = ask(&table, Some(&sticky), &From::default(), drawn);
        let cookie = first.new_cookie().unwrap();
        let again = From { cookie: Some(("cm", cookie)), ..From::default() };
        let second = ask(&table, Some(&sticky), &again, drawn + 1);
        assert_eq!((second.variation, second.new_key), (first.variation, None));
    }
}

#[test]
fn a_caller_who_has_the_new_version_keeps_it_while_its_share_grows() {
    let sticky = Sticky::Header("X-User".into());
    let tables = [10, 500, 1000, 5000, 10_000].map(table);
    for user in 0..2_000 {
        let call = From { header: Some(("x-user", format!("u{user}"))), ..From::default() };
        let mut had_it = false;
        for table in &tables {
            let choice = ask(table, Some(&sticky), &call, 0);
            assert!(choice.variation == Variation(1) || !had_it);
            had_it = choice.variation == Variation(1);
        }
        assert!(had_it);
    }
}

#[test]
fn an_address_is_a_key_too_and_the_whole_share_is_spread_over_addresses() {
    let of =
        |octet| ask(&table(5000), Some(&Sticky::Address), &From { last_octet: octet, ..From::default() }, 0);
    let new = (0..=255).filter(|&octet| of(octet).variation == Variation(1)).count();
    // Mean 128 and standard deviation 8.
    assert!((80..176).contains(&new), "{new}");
    assert_eq!(of(7), of(7));
}

#[test]
fn the_header_rule_is_stronger_than_share_and_stickiness_and_marks_the_call() {
    let call = From { header: Some(("X-Variation", "B".into())), ..From::default() };
    let choice = ask(&table(0), Some(&Sticky::Address), &call, 0);
    assert_eq!(choice, Choice { variation: Variation(1), new_key: None, by_header: true, group: None });
    let stranger = From { header: Some(("X-Variation", "C".into())), ..From::default() };
    assert_eq!(ask(&table(0), None, &stranger, 0).variation, Variation::STABLE);
}

#[test]
fn each_call_is_drawn_by_itself_where_nothing_is_sticky() {
    let table = table(1000);
    let new = (0..10_000_u64)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .filter(|&drawn| ask(&table, None, &From::default(), drawn).variation == Variation(1))
        .count();
    // Mean 1,000 and standard deviation 30.
    assert!((820..1180).contains(&new), "{new}");
}
