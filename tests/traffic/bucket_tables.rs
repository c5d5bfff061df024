use proptest::prelude::*;
use traffic::{BUCKETS, Run, Shares, SharesError, Table, TableError, Variation};

fn shares(hundredths: &[u16]) -> Shares {
    Shares::new(hundredths).unwrap()
}

/// Shares of `variations` variations: cuts of the whole.
fn any_shares(variations: usize) -> impl Strategy<Value = Shares> {
    prop::collection::vec(0..=BUCKETS, variations - 1).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts.push(BUCKETS);
        let mut from = 0;
        let widths: Vec<u16> = cuts.into_iter().map(|to| to - std::mem::replace(&mut from, to)).collect();
        Shares::new(widths).unwrap()
    })
}

fn any_history() -> impl Strategy<Value = Vec<Shares>> {
    (2_usize..=8).prop_flat_map(|variations| prop::collection::vec(any_shares(variations), 1..6))
}

proptest! {
    #[test]
    fn a_change_gives_the_shares_asked_for_and_moves_no_bucket_more_than_it_must(history in any_history()) {
        let mut table = Table::new(&history[0]);
        for asked in &history {
            let next = table.with_shares(asked).unwrap();
            prop_assert_eq!(next.hundredths(), asked.hundredths());
            let must: u16 = table
                .hundredths()
                .iter()
                .zip(asked.hundredths())
                .map(|(have, want)| want.saturating_sub(*have))
                .sum();
            prop_assert_eq!(table.moved_buckets(&next), must);
            table = next;
        }
    }

    #[test]
    fn a_variation_that_does_not_shrink_loses_no_bucket(history in any_history()) {
        let mut table = Table::new(&history[0]);
        for asked in &history {
            let next = table.with_shares(asked).unwrap();
            let have = table.hundredths();
            let lost = buckets(&table).into_iter().zip(buckets(&next)).find(|(before, after)| {
                before != after && asked.hundredths()[before.index()] >= have[before.index()]
            });
            prop_assert_eq!(lost, None);
            table = next;
        }
    }

    #[test]
    fn with_two_variations_the_table_depends_on_the_shares_alone(
        history in prop::collection::vec(any_shares(2), 1..6)
    ) {
        let mut table = Table::new(&history[0]);
        for asked in &history {
            table = table.with_shares(asked).unwrap();
            prop_assert_eq!(&table, &Table::new(asked));
        }
    }

    #[test]
    fn a_table_is_read_back_from_its_runs(history in any_history()) {
        let table = history.iter().fold(Table::new(&history[0]), |table, asked| table.with_shares(asked).unwrap());
        prop_assert_eq!(Table::from_runs(table.variations(), &table.runs()).unwrap(), table);
    }
}

fn buckets(table: &Table) -> Vec<Variation> {
    table.runs().iter().flat_map(|run| (run.from..run.to).map(|_| run.variation)).collect()
}

#[test]
fn the_third_of_three_variations_keeps_everybody_while_the_second_grows() {
    let before = Table::new(&shares(&[9000, 500, 500]));
    let after = before.with_shares(&shares(&[8500, 1000, 500])).unwrap();
    assert_eq!(before.moved_buckets(&after), 500);
    let third = |table: &Table| -> Vec<usize> {
        buckets(table).iter().enumerate().filter(|(_, of)| **of == Variation(2)).map(|(at, _)| at).collect()
    };
    assert_eq!(third(&before), third(&after));
}

#[test]
fn a_variation_may_be_added_and_none_may_be_left_out() {
    let two = Table::new(&shares(&[9000, 1000]));
    let three = two.with_shares(&shares(&[8000, 1000, 1000])).unwrap();
    assert_eq!(two.moved_buckets(&three), 1000);
    assert_eq!(three.with_shares(&shares(&[9000, 1000])), Err(TableError::Fewer { there: 3, asked: 2 }));
}

#[test]
fn shares_that_do_not_add_up_are_refused() {
    assert_eq!(Shares::new([9000, 999]), Err(SharesError::Sum { sum: 9999 }));
    assert_eq!(Shares::new([u16::MAX, u16::MAX]), Err(SharesError::Sum { sum: 131_070 }));
    assert_eq!(Shares::new([]), Err(SharesError::Variations(0)));
    assert_eq!(Shares::new([1000; 10]), Err(SharesError::Variations(10)));
}

#[test]
fn runs_with_a_hole_an_overlap_an_end_too_early_or_a_stranger_are_refused() {
    let run = |from, to, variation| Run { from, to, variation: Variation(variation) };
    let refused = |runs: &[Run]| Table::from_runs(2, runs).unwrap_err();
    assert_eq!(refused(&[run(0, 10, 0), run(11, BUCKETS, 1)]), TableError::Runs { bucket: 10 });
    assert_eq!(refused(&[run(0, 10, 0), run(9, BUCKETS, 1)]), TableError::Runs { bucket: 9 });
    assert_eq!(refused(&[run(0, 10, 0)]), TableError::Runs { bucket: 10 });
    assert_eq!(refused(&[run(0, BUCKETS + 1, 0)]), TableError::Runs { bucket: 0 });
    assert_eq!(refused(&[]), TableError::Runs { bucket: 0 });
    let stranger = refused(&[run(0, BUCKETS, 2)]);
    assert_eq!(stranger, TableError::Unknown { from: 0, variation: 2, variations: 2 });
}
