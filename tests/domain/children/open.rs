//! The list of the releases in which a child has a part.

use domain::children::open::OpenReleases;
use model::ReleaseKey;

#[test]
fn it_is_a_list_however_many_there_are() {
    assert_eq!(size_of::<OpenReleases>(), 16);
    let (mut open, mut model) = (OpenReleases::default(), Vec::new());
    for key in [5, 1, 9, 3] {
        let at = open.binary_search(&ReleaseKey(key)).unwrap_err();
        open.insert(at, ReleaseKey(key));
        model.insert(at, ReleaseKey(key));
        assert_eq!(open.as_slice(), model);
    }
    for key in [9, 7, 1, 5, 3] {
        open.remove(ReleaseKey(key));
        model.retain(|other| *other != ReleaseKey(key));
        assert_eq!(open.as_slice(), model);
    }
    assert_eq!(open, OpenReleases::default());
}
