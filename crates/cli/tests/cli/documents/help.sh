# Makes the directory in which an example of a help text runs: `prepare`, with the example as input.

# The volume of most examples, and the files of the host beside it. Made once.
fixture() {
    mkdir -p /documents/fixture ~/src/sub ~/Pictures /share /Pictures ~/scratch ~/.local/share/man/man1 \
        ~/.local/share/bash-completion/completions ~/.config/fish/completions
    cd /documents/fixture
    echo 'fn one_test() {}' >~/src/main.rs
    echo two >~/src/sub/two
    echo picture >~/Pictures/2.jpg
    echo picture >/Pictures/1.jpg
    echo one >/share/one
    ln -s nowhere /share/dangling
    printf '/etc/passwd\n/etc/none\n' >manifest.txt
    printf 'todo\nof a\n' >words.txt
    echo /photo.jpg >read.txt
    echo picture >photo.jpg
    cp -r ~/src src
    tar czf linux.tar.gz src
    tar cJf linux.tar.xz src
    tar cJf share.tar.xz -C /share .
    # The directories of these lie in /, or the volume's root has the rest.
    mkdir -p tree/etc tree/usr/bin tree/dir tree/home/alice tree/shared tree/src tree/db tree/photos tree/logs \
        tree/share tree/data tree/texts tree/old tree/older tree/tmp tree/2026 tree/Pictures
    for name in etc/hosts etc/passwd etc/fstab part1 part2 a b a.txt b.txt x y log current next photo.jpg \
        src/main.rs notes.txt tmp/a tmp/b home/alice/f photos/1.jpg 2026/f Pictures/1.jpg main.o share/one; do
        printf 'todo: unsafe fn main_test of %s\none\ntwo\n' "$name" >"tree/$name"
    done
    echo license >tree/share/license.md
    cp tree/photos/1.jpg tree/photos/2.jpg
    ln -s etc/hosts tree/link
    ln -s nowhere tree/share/dangling
    lanefs mkfs v.lane --size 1G -q
    lanefs import v.lane tree / >/dev/null
    rm -r tree
    lanefs xattr v.lane set user.origin phone /photo.jpg
    cp --sparse=always v.lane photos.lane
    cp --sparse=always v.lane copy.lane
    lanefs publish v.lane s3://bucket/share >/dev/null
    lanefs publish v.lane s3://bucket/photos >/dev/null
    lanefs publish v.lane s3://bucket/data >/dev/null
    lanefs publish v.lane file:///srv/photos#2026-10 >/dev/null
    lanefs publish v.lane file:///srv/photos >/dev/null
    lanefs publish v.lane file:///srv/photos#draft >/dev/null
    lanefs mkfs part.lane --size 64M --family photos -q
    for month in 04 05; do
        lanefs publish part.lane file:///srv/joined --prefix "/2026/$month" --receipt "$month.json" >/dev/null
    done
    lanefs join file:///srv/joined 05.json >/dev/null
}

# Removes what other examples need and this one must not find, and mounts what it needs.
differ() {
    case $1 in
        'lanefs mkfs v.lane'*) rm v.lane ;;
        'lanefs mkfs part.lane'*) rm part.lane ;;
        'lanefs mkfs photos.lane'* | 'lanefs pull'*) rm photos.lane ;;
        'lanefs ln v.lane /a /b') lanefs rm v.lane /b ;;
        'lanefs mkdir v.lane /photos'*) lanefs rm v.lane -r /photos ;;
        'lanefs mkdir v.lane -p -m 700 /a'*) lanefs rm v.lane /a ;;
        'printf '*'lanefs shell'*) lanefs rm v.lane /a ;;
        *'/mnt'*)
            case $1 in
                'lanefs mount -o remount'* | 'lanefs top'* | 'lanefs umount'* | 'lanefs publish'* | 'lanefs map'*)
                    lanefs mount v.lane /mnt >/dev/null ;;
            esac ;;
    esac
    case $1 in 'lanefs top'*) mount -t tmpfs t /var/lib && mkdir /var/lib/node_exporter ;; esac
}

prepare() {
    { set +x; } 2>/dev/null
    IFS= read -r line
    while lanefs umount /mnt 2>/dev/null; do :; done
    lanefs umount ~/scratch 2>/dev/null || :
    [ -d /documents/fixture ] || fixture
    rm -rf /documents/example
    cp -r --sparse=always /documents/fixture /documents/example
    cd /documents/example
    differ "$line"
    rm -f /documents/failed
    set -x
}
