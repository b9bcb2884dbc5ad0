#!/bin/sh
# Runs steps of shell in a root directory of their own, in which no document can harm the machine.
#
#   sandbox.sh FOLDER PROGRAM FURTHER
#
# FOLDER/steps has the steps NNN.sh; the output, messages and exit code of each come into it. FURTHER is
# `stop` if the first step that fails is the last one, or `go-on`. `unshare` gives this script its own mounts
# and processes, which end with it. Of the machine's directories the steps see those of programs, to read
# them; all others, as /mnt, /srv and the home, are empty and in memory.
set -eu
folder=$1 program=$2 further=$3
root=$folder/root
mkdir -p "$root"
mount -t tmpfs -o mode=755 lanefs-documents "$root"
for directory in /bin /sbin /lib /lib64 /lib32 /usr /etc /opt /var; do
    if [ -L "$directory" ]; then cp -P "$directory" "$root$directory"; continue; fi
    [ -d "$directory" ] || continue
    mkdir "$root$directory"
    mount --rbind "$directory" "$root$directory"
    mount -o remount,bind,ro "$root$directory"
done
for directory in /dev /proc /sys; do
    mkdir "$root$directory"
    mount --rbind "$directory" "$root$directory"
done
mkdir -p "$root/tmp" "$root/run" "$root/mnt" "$root/srv" "$root/root" "$root/documents/bin" "$root/documents/here"
chmod 1777 "$root/tmp"

# A small /usr/share in place of the machine's, with the drivers of Vulkan, and a link that leads nowhere.
share=$root/documents/share
mkdir -p "$share/doc/a" "$share/vulkan" "$share/empty"
for n in 1 2 3 4 5; do printf 'text %s\nof a license\n' "$n" >"$share/doc/a/$n.md"; done
head -c 100000 /dev/zero >"$share/doc/zeros"
ln -s nowhere "$share/doc/dangling"
[ ! -d /usr/share/vulkan ] || mount --bind /usr/share/vulkan "$share/vulkan"
for kept in drirc.d libdrm perl perl5; do
    [ ! -d "/usr/share/$kept" ] || { mkdir "$share/$kept"; mount --bind "/usr/share/$kept" "$share/$kept"; }
done
mount --rbind "$share" "$root/usr/share"

# The user `alice`, whom the examples name.
cp /etc/passwd "$root/documents/passwd"
echo 'alice:x:4711:4711::/home/alice:/bin/sh' >>"$root/documents/passwd"
mount --bind "$root/documents/passwd" "$root/etc/passwd"

# The program, and in the PATH a script that remembers each call that failed: the exit code of a pipeline is
# that of its last command.
touch "$root/documents/lanefs"
mount --bind "$program" "$root/documents/lanefs"
cat >"$root/documents/bin/lanefs" <<'WRAPPER'
#!/bin/sh
/documents/lanefs "$@"
code=$?
[ "$code" -le 1 ] || printf 'exit code %s: lanefs %s\n' "$code" "$*" >>/documents/failed
exit "$code"
WRAPPER
chmod +x "$root/documents/bin/lanefs"

mkdir "$root/documents/steps"
mount --bind "$folder/steps" "$root/documents/steps"
for step in "$folder"/steps/*.sh; do
    name=$(basename "$step" .sh)
    code=0
    env -i PATH="/documents/bin:$PATH" HOME=/root LANG=C.UTF-8 COLUMNS=100 TMPDIR=/tmp \
        AWS_ENDPOINT_URL="$LANEFS_STORE" AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=SECRET \
        ${VK_DRIVER_FILES:+VK_DRIVER_FILES="$VK_DRIVER_FILES"} \
        chroot "$root" /bin/bash -c "cd /documents/here && exec bash -eux /documents/steps/$name.sh" \
        >"$folder/steps/$name.out" 2>"$folder/steps/$name.err" </dev/null || code=$?
    if [ -e "$root/documents/failed" ]; then
        cat "$root/documents/failed" >>"$folder/steps/$name.err"
        [ "$code" -gt 1 ] || code=99
        rm "$root/documents/failed"
    fi
    echo "$code" >"$folder/steps/$name.code"
    [ "$code" -eq 0 ] || [ "$further" = go-on ] || break
done
