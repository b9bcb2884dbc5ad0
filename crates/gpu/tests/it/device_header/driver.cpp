// Answers requests by lanefs_device.h, for tests: `driver MIRROR FILES LANES < REQUESTS > ANSWERS`.
//
// MIRROR and FILES are files with the exported bytes, `-` for none. With LANES above 1 all work is that of a
// group with so many members, a thread each. A request is an operation, two numbers, a
// length and so many bytes; the answers are numbers of 8 bytes, and bytes with their length before them.

#include "lanefs_device.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "driver: %s\n", what);
    std::exit(2);
}

// Bytes in a heap block of exactly their length, so that AddressSanitizer sees each access outside.
struct Block {
    uint8_t *bytes = nullptr;
    uint64_t length = 0;
};

Block block_of(const void *from, uint64_t length) {
    Block block;
    block.bytes = static_cast<uint8_t *>(std::malloc(length));
    block.length = length;
    if (length != 0) {
        std::memcpy(block.bytes, from, length);
    }
    return block;
}

Block read_file(const char *path) {
    if (std::strcmp(path, "-") == 0) {
        return Block();
    }
    std::FILE *file = std::fopen(path, "rb");
    if (file == nullptr) {
        fail("a file that cannot be opened");
    }
    std::string all;
    std::vector<char> some(1 << 20);
    for (size_t count; (count = std::fread(some.data(), 1, some.size(), file)) != 0;) {
        all.append(some.data(), count);
    }
    std::fclose(file);
    return block_of(all.data(), all.size());
}

// Members of a group meet at each ballot.
struct Meeting {
    std::mutex mutex;
    std::condition_variable all_here;
    uint32_t size = 1, here = 0;
    uint64_t round = 0, bits = 0, last = 0;

    uint64_t ballot(uint32_t rank, bool is_set) {
        std::unique_lock<std::mutex> lock(mutex);
        bits |= static_cast<uint64_t>(is_set) << rank;
        uint64_t mine = round;
        if (++here == size) {
            last = bits;
            here = 0;
            bits = 0;
            round++;
            all_here.notify_all();
        } else if (!all_here.wait_for(lock, std::chrono::seconds(60), [&] { return round != mine; })) {
            fail("members of a group have parted");
        }
        return last;
    }
};

struct Member {
    Meeting *meeting;
    uint32_t its_rank;
    uint32_t rank() const { return its_rank; }
    uint32_t size() const { return meeting->size; }
    uint64_t ballot(bool is_set) const { return meeting->ballot(its_rank, is_set); }
};

struct Answers {
    std::string bytes;
    void number(uint64_t value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); }
    void text(const void *from, uint64_t length) {
        number(length);
        bytes.append(static_cast<const char *>(from), length);
    }
};

struct Request {
    char operation;
    uint64_t a, b;
    Block text;
};

// The work of a thread, or of a member of a group.
template <class Group> struct Worker {
    const lanefs_view *view;
    const lanefs_files *files;
    Group group;
    Answers answers;

    void lookup(const Request &request) {
        const char *path = reinterpret_cast<const char *>(request.text.bytes);
        uint32_t options = static_cast<uint32_t>(request.b);
        lanefs_found found = lanefs_lookup_by(group, view, request.a, path, request.text.length, options);
        answers.number(found.code);
        answers.number(found.kind);
        answers.number(found.ino);
    }

    void stat(const Request &request) {
        lanefs_attributes found = {};
        bool is_alone = group.size() == 1;
        answers.number(is_alone ? lanefs_stat(view, request.a, &found)
                                : lanefs_stat_by(group, view, request.a, &found));
        for (uint64_t value :
             {found.ino, found.size, found.blocks, found.rdev, uint64_t(found.mtime), uint64_t(found.ctime),
              uint64_t(found.atime), uint64_t(found.btime), uint64_t(found.mode), uint64_t(found.links),
              uint64_t(found.uid), uint64_t(found.gid), uint64_t(found.generation)}) {
            answers.number(value);
        }
    }

    lanefs_code extent(uint64_t ino, uint64_t offset, lanefs_extent *found) {
        return group.size() == 1 ? lanefs_extents(view, ino, offset, found)
                                 : lanefs_extents_by(group, view, ino, offset, found);
    }

    void extents(const Request &request) {
        std::vector<lanefs_extent> all;
        lanefs_extent one = {};
        lanefs_code code = extent(request.a, 0, &one);
        while (code == LANEFS_SUCCESS && all.size() < 10000) {
            all.push_back(one);
            code = extent(request.a, one.offset + one.bytes, &one);
        }
        answers.number(code);
        answers.number(all.size());
        for (const lanefs_extent &extent : all) {
            answers.number(extent.offset);
            answers.number(extent.position);
            answers.number(extent.bytes);
            answers.number(extent.unwritten);
        }
    }

    void entry(const lanefs_entry &one) {
        answers.number(one.ino);
        answers.number(one.cookie);
        answers.number(one.kind);
        answers.text(one.name, one.name_length);
    }

    // All entries, and then 0 and the code at the end.
    void list(const Request &request) {
        lanefs_directory directory;
        lanefs_entry one = {};
        lanefs_code code = lanefs_opendir(view, request.a, request.b, &directory);
        while (code == LANEFS_SUCCESS) {
            if (group.size() == 1) {
                code = lanefs_readdir(view, &directory, &one);
            } else {
                code = lanefs_readdir_by(group, view, &directory, &one);
            }
            if (code == LANEFS_SUCCESS && one.ino != 0) {
                entry(one);
            }
        }
        answers.number(0);
        answers.number(code);
    }

    // The length of the text is that of the buffer; all members have the same one.
    void read(const Request &request) {
        int64_t count =
            lanefs_read_by(group, view, files, request.a, request.b, request.text.bytes, request.text.length);
        group.ballot(false);
        answers.number(static_cast<uint64_t>(count));
        answers.text(request.text.bytes, count > 0 ? static_cast<uint64_t>(count) : 0);
    }

    void answer(const Request &request) {
        switch (request.operation) {
        case 'L':
            return lookup(request);
        case 'S':
            return stat(request);
        case 'E':
            return extents(request);
        case 'D':
            return list(request);
        case 'R':
            return read(request);
        default:
            fail("an unknown operation");
        }
    }
};

std::vector<Request> read_requests() {
    std::vector<Request> requests;
    char operation;
    while (std::fread(&operation, 1, 1, stdin) == 1) {
        uint64_t numbers[3];
        if (std::fread(numbers, 8, 3, stdin) != 3) {
            fail("a request without numbers");
        }
        std::string text(numbers[2], '\0');
        if (std::fread(&text[0], 1, text.size(), stdin) != text.size()) {
            fail("a request without its text");
        }
        requests.push_back(Request{operation, numbers[0], numbers[1], block_of(text.data(), text.size())});
    }
    return requests;
}

void write(const std::string &bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
        fail("answers that cannot be written");
    }
}

} // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        fail("three arguments are needed");
    }
    Block mirror = read_file(arguments[1]), memory = read_file(arguments[2]);
    lanefs_view view;
    lanefs_files files;
    if (lanefs_open(mirror.bytes, mirror.length, &view) != LANEFS_SUCCESS) {
        std::puts("no mirror");
        std::free(mirror.bytes);
        std::free(memory.bytes);
        return 0;
    }
    if (memory.bytes != nullptr && lanefs_open_files(memory.bytes, memory.length, &files) != LANEFS_SUCCESS) {
        std::puts("no files");
        std::free(mirror.bytes);
        std::free(memory.bytes);
        return 0;
    }
    const lanefs_files *table = memory.bytes == nullptr ? nullptr : &files;
    std::vector<Request> requests = read_requests();
    uint32_t lanes = static_cast<uint32_t>(std::atoi(arguments[3]));
    if (lanes <= 1) {
        Worker<lanefs_thread> worker = {&view, table, lanefs_thread(), Answers()};
        for (const Request &request : requests) {
            worker.answer(request);
        }
        write(worker.answers.bytes);
    } else {
        Meeting meeting;
        meeting.size = lanes;
        std::vector<Worker<Member>> workers;
        for (uint32_t rank = 0; rank < lanes; rank++) {
            workers.push_back(Worker<Member>{&view, table, Member{&meeting, rank}, Answers()});
        }
        std::vector<std::thread> threads;
        for (Worker<Member> &worker : workers) {
            threads.emplace_back([&worker, &requests] {
                for (const Request &request : requests) {
                    worker.answer(request);
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        // The answers of each member, one after the other.
        for (const Worker<Member> &worker : workers) {
            Answers length;
            length.number(worker.answers.bytes.size());
            write(length.bytes + worker.answers.bytes);
        }
    }
    if (memory.bytes != nullptr) {
        // The table as it is now, with the misses.
        std::FILE *file = std::fopen(arguments[2], "wb");
        if (file == nullptr || std::fwrite(memory.bytes, 1, memory.length, file) != memory.length
            || std::fclose(file) != 0) {
            fail("a table that cannot be written");
        }
    }
    std::free(mirror.bytes);
    std::free(memory.bytes);
    for (const Request &request : requests) {
        std::free(request.text.bytes);
    }
    return 0;
}
