//! Which release is told as the one before.

use store::rows::{PrecedentRow, Writes};

use super::{
    everything::Everything,
    place::{Place, stories},
    rows::batch,
};

stories!(simultaneous_previous_runs_are_ordered_by_release_number);

/// More than two of one instant: no call of the port tells the first of them while the others stand.
async fn simultaneous_previous_runs_are_ordered_by_release_number(place: &Place) {
    const AT_MS: i64 = -1;
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let precedent = |release_key: u32, ended_ms| PrecedentRow {
        function: "sieve".to_owned(),
        release_key,
        id: format!("r{release_key}"),
        ended_ms,
        times: "[]".to_owned(),
    };
    let all = [0, 3, 5, u32::MAX];
    let mut model = Everything::default();
    let first =
        Writes { precedents: all.map(|key| precedent(key, Some(AT_MS))).to_vec(), ..Writes::default() };
    writer.commit(&batch(&lease, 0, first.clone())).await.unwrap();
    model.apply(&first);
    let mut left = all.to_vec();
    for seq in 1.. {
        assert_eq!(Everything::read(&mut *writer, &*reader, &model).await, model);
        let told = async |but| {
            let found = reader.precedent("sieve", AT_MS, but).await.unwrap();
            found.map(|row| row.release_key)
        };
        let Some(last) = left.pop() else {
            assert_eq!(told(1).await, None);
            break;
        };
        assert_eq!((told(1).await, told(last).await), (Some(last), left.last().copied()));
        let undone = Writes { precedents: vec![precedent(last, None)], ..Writes::default() };
        writer.commit(&batch(&lease, seq, undone.clone())).await.unwrap();
        model.apply(&undone);
    }
}
