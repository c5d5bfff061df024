//! Pages are an array, of which copies are cheap.

use std::collections::BTreeMap;

use model::pages::Pages;

type Few = Pages<Option<usize>, 4>;

#[test]
fn it_is_an_array() {
    let (mut pages, mut model) = (Few::default(), BTreeMap::new());
    for (at, value) in [(5, 1), (0, 2), (17, 3), (5, 4), (6, 5)] {
        pages.put(at, Some(value));
        model.insert(at, Some(value));
    }
    for at in [6, 3, 40, 17] {
        assert_eq!(pages.take(at), model.remove(&at), "{at}");
        assert_eq!(pages.take(at), None, "{at}");
    }
    pages.get_mut(5).unwrap().replace(7);
    model.insert(5, Some(7));
    for at in 0..50 {
        assert_eq!(pages.get(at), model.get(&at), "{at}");
        assert!(pages.from(at).eq(model.range(at..).map(|(at, value)| (*at, value))), "{at}");
    }
}

#[test]
fn who_comes_and_goes_leaves_no_page_behind() {
    let mut pages = Few::default();
    for at in 0..100_000 {
        pages.put(at, Some(at));
        if let Some(gone) = at.checked_sub(10) {
            pages.take(gone);
        }
        assert!(pages.page_count() <= 4);
    }
    assert_eq!(pages.from(0).count(), 10);
    assert_eq!(pages.from(99_995).next(), Some((99_995, &Some(99_995))));
}

#[test]
fn a_copy_stays_as_it_was_and_shares_what_nobody_changes() {
    let mut pages = Few::default();
    let mut model = BTreeMap::new();
    for at in (0..20_000).step_by(3) {
        pages.put(at, Some(at));
        model.insert(at, at);
    }
    let (copy, before) = (pages.clone(), model.clone());
    for at in [0, 3, 9_999, 19_998] {
        pages.get_mut(at).unwrap().replace(at + 1);
        model.insert(at, at + 1);
    }
    assert_eq!((pages.take(6), model.remove(&6)), (Some(Some(6)), Some(6)));
    pages.put(30_000, Some(1));
    model.insert(30_000, 1);
    let same = |pages: &Few, model: &BTreeMap<usize, usize>| {
        pages.from(0).map(|(at, value)| (at, value.unwrap())).eq(model.iter().map(|(at, v)| (*at, *v)))
    };
    assert!(same(&copy, &before) && same(&pages, &model));
    let place = |pages: &Few, at: usize| std::ptr::from_ref(pages.get(at).unwrap()) as usize;
    assert_eq!(place(&pages, 12), place(&copy, 12), "nobody changed anything on its page");
    assert_ne!(place(&pages, 3), place(&copy, 3));
}

#[test]
fn who_alone_holds_it_copies_nothing() {
    let mut pages = Few::default();
    pages.put(7, Some(1));
    let place = |pages: &Few| std::ptr::from_ref(pages.get(7).unwrap()) as usize;
    let before = place(&pages);
    drop(pages.clone());
    pages.get_mut(7).unwrap().replace(2);
    assert_eq!((place(&pages), pages.get(7)), (before, Some(&Some(2))));
}

#[test]
fn all_can_be_changed_in_order() {
    let mut pages = Few::default();
    let places = [1, 2, 130, 4_000, 5_000, 70_000];
    for at in places {
        pages.put(at, Some(at));
    }
    let copy = pages.clone();
    let mut seen = Vec::new();
    for (at, value) in pages.iter_mut() {
        value.replace(at * 2);
        seen.push(at);
    }
    assert_eq!(seen, places);
    assert!(
        pages.from(0).eq(places
            .iter()
            .map(|at| (*at, Some(at * 2)))
            .collect::<Vec<_>>()
            .iter()
            .map(|(a, v)| (*a, v)))
    );
    assert!(copy.from(0).all(|(at, value)| *value == Some(at)));
}
