// The C++ API against a server of a few lines on a thread. The protocol's cases are the C library's tests.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <type_traits>

#include <gtest/gtest.h>

#include <ticketing/ticketing.hpp>

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ticketing::AcquireOptions times{seconds(5), seconds(30)};

// Answers every acquire with a rising token and every release; accepts any proof. Lives as long as the process.
class Server {
  public:
    Server() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (bind(listener_, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(listener_, 64) != 0 ||
            getsockname(listener_, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
            throw std::runtime_error("cannot listen on loopback");
        }
        address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        std::thread([this] { accept_all(); }).detach();
    }

    const std::string &address() const { return address_; }

    // What acquires are answered; 'A' grants, 0 leaves them without an answer.
    std::atomic<char> acquire_answer{'A'};
    std::atomic<int> releases{0};

  private:
    void accept_all() {
        for (;;) {
            const int fd = accept(listener_, nullptr, nullptr);
            if (fd < 0) {
                return;
            }
            std::thread([this, fd] { serve(fd); }).detach();
        }
    }

    void serve(int fd) {
        unsigned char hello[28] = {'T', 'C', 'K', 'C', 'L', 'I', '3', 0, 0, 3, 0, 255};
        unsigned char bytes[2100];
        send(fd, hello, sizeof hello, MSG_NOSIGNAL);
        if (read_all(fd, bytes, 32)) {
            send(fd, "\1", 1, MSG_NOSIGNAL);
            unsigned char head[3];
            while (read_all(fd, head, 3) && read_all(fd, bytes, static_cast<std::size_t>(head[1] << 8 | head[2]))) {
                answer(fd, head[0], bytes);
            }
        }
        close(fd);
    }

    void answer(int fd, unsigned char op, const unsigned char *body) {
        unsigned char reply[20] = {op, 0, 8};
        std::memcpy(reply + 3, body, 8);
        if (op == 'R' || op == 'G') {
            ++releases;
        } else if (acquire_answer == 'A') {
            const std::uint64_t token = ++token_;
            reply[2] = 16;
            for (int index = 0; index < 8; ++index) {
                reply[11 + index] = static_cast<unsigned char>(token >> (56 - 8 * index));
            }
        } else if (acquire_answer == 0) {
            return;
        } else {
            reply[0] = static_cast<unsigned char>(acquire_answer);
            // The code of an E.
            reply[2] = reply[0] == 'E' ? 9 : 8;
            reply[11] = 2;
        }
        send(fd, reply, 3U + reply[2], MSG_NOSIGNAL);
    }

    static bool read_all(int fd, unsigned char *bytes, std::size_t size) {
        for (std::size_t at = 0; at < size;) {
            const ssize_t count = recv(fd, bytes + at, size - at, 0);
            if (count <= 0) {
                return false;
            }
            at += static_cast<std::size_t>(count);
        }
        return true;
    }

    int listener_;
    std::string address_;
    std::atomic<std::uint64_t> token_{0};
};

class BrokerTest : public testing::Test {
  protected:
    BrokerTest() : broker_(ticketing::Options(server().address())) {
        server().acquire_answer = 'A';
        server().releases = 0;
        broker_.wait_ready(seconds(5));
    }

    static Server &server() {
        static Server *const the_server = new Server;
        return *the_server;
    }

    ticketing::Broker broker_;
};

static_assert(!std::is_copy_constructible_v<ticketing::Ticket>);
static_assert(std::is_nothrow_move_constructible_v<ticketing::Ticket>);
static_assert(std::is_nothrow_move_constructible_v<ticketing::Broker>);

TEST_F(BrokerTest, AcquiresAndReleases) {
    ticketing::Ticket ticket = broker_.acquire("order-1", times);
    EXPECT_GT(ticket.token(), 0U);
    EXPECT_EQ(ticket.domain(), "single");
    EXPECT_EQ(ticket.keys(), std::vector<std::string>{"order-1"});
    EXPECT_GT(ticket.remaining(), seconds(25));
    EXPECT_LE(ticket.remaining(), seconds(30));
    EXPECT_EQ(ticket.release(), ticketing::ReleaseOutcome::released);
    EXPECT_EQ(ticket.release(), ticketing::ReleaseOutcome::not_held);
    ticketing::Ticket set = broker_.acquire_set({"b", "a", "b"}, times);
    EXPECT_EQ(set.keys(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(BrokerTest, ScopeReleasesAndMovesDoNot) {
    {
        ticketing::Ticket first = broker_.acquire("k", times);
        const ticketing::Ticket second = std::move(first);
        EXPECT_EQ(server().releases, 0);
        EXPECT_GT(second.token(), 0U);
    }
    // Closing waits for releases under way.
    broker_.close();
    EXPECT_EQ(server().releases, 1);
}

TEST_F(BrokerTest, EveryRefusalHasItsClass) {
    server().acquire_answer = 'T';
    EXPECT_THROW((void)broker_.acquire("k", times), ticketing::Timeout);
    server().acquire_answer = 'B';
    EXPECT_THROW((void)broker_.acquire("k", times), ticketing::Busy);
    server().acquire_answer = 'I';
    EXPECT_THROW((void)broker_.acquire("k", times), ticketing::Indeterminate);
    server().acquire_answer = 'E';
    try {
        (void)broker_.acquire("k", times);
        FAIL() << "not rejected";
    } catch (const ticketing::Rejected &rejected) {
        EXPECT_EQ(rejected.rejection_code(), 2);
        EXPECT_STREQ(rejected.name(), "Rejected");
    }
}

TEST_F(BrokerTest, BadInputIsRefused) {
    EXPECT_THROW((void)broker_.acquire("a b", times), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("", times), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire_set({}, times), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(-1), seconds(30)}), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(256), seconds(30)}), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(1), seconds(0)}), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(1), seconds(251)}), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(1), seconds(5'000'000'000)}), ticketing::InvalidInput);
    EXPECT_THROW((void)broker_.acquire("k", {seconds(1), seconds(5), seconds(5)}), ticketing::InvalidInput);
    EXPECT_THROW(ticketing::Options("nowhere"), ticketing::InvalidInput);
    EXPECT_THROW(ticketing::Broker(ticketing::Options("10.0.0.1:1")), ticketing::InvalidInput);
    EXPECT_THROW(ticketing::Options("a:1").token("short"), ticketing::InvalidInput);
    EXPECT_THROW(ticketing::Broker(ticketing::Options("127.0.0.1:1").server_name("a.example")),
                 ticketing::InvalidInput);
    try {
        ticketing::Options("a:1").fingerprint("00");
        FAIL() << "not refused";
    } catch (const ticketing::InvalidInput &refused) {
        EXPECT_STREQ(refused.what(), "a fingerprint has 64 hexadecimal digits");
    }
    try {
        (void)broker_.acquire("a b", times);
        FAIL() << "not refused";
    } catch (const ticketing::InvalidInput &refused) {
        EXPECT_STREQ(refused.what(), "a key has 1 to 128 bytes of UTF-8 without space, LF and CR");
    }
}

template <typename Call> std::string refusal(Call call) {
    try {
        call();
    } catch (const ticketing::InvalidInput &refused) {
        return refused.what();
    }
    return "not refused";
}

TEST_F(BrokerTest, TimesThatAreForgottenOrNegative) {
    // Not set by a caller: one immediate try, and no lease at all.
    ticketing::AcquireOptions lease_only;
    lease_only.lease = seconds(5);
    EXPECT_EQ(lease_only.wait, milliseconds(0));
    EXPECT_GT(broker_.acquire("k", lease_only).token(), 0U);
    ticketing::AcquireOptions wait_only;
    wait_only.wait = seconds(5);
    EXPECT_EQ(refusal([&] { (void)broker_.acquire("k", wait_only); }), "lease is 1 to 250 s");
    // Cast to the C type, these would be weeks.
    for (const milliseconds timeout : {milliseconds(-1), milliseconds::min(), milliseconds::max()}) {
        EXPECT_EQ(refusal([&] { broker_.wait_ready(timeout); }), "the timeout is 0 to 2,147,483,647 ms");
    }
}

TEST_F(BrokerTest, WhatWasMovedFromIsRefused) {
    ticketing::Ticket ticket = broker_.acquire("k", times);
    const ticketing::Ticket owner = std::move(ticket);
    // NOLINTBEGIN(bugprone-use-after-move): that is the test.
    EXPECT_EQ(refusal([&] { ticket.token(); }), "this ticket was moved from");
    EXPECT_THROW(ticket.domain(), ticketing::InvalidInput);
    EXPECT_THROW(ticket.remaining(), ticketing::InvalidInput);
    EXPECT_THROW(ticket.keys(), ticketing::InvalidInput);
    EXPECT_THROW(ticket.release(), ticketing::InvalidInput);
    EXPECT_THROW(ticket.release_async([](auto) {}), ticketing::InvalidInput);
    ticketing::Broker broker{ticketing::Options(server().address())};
    const ticketing::Broker other = std::move(broker);
    EXPECT_EQ(refusal([&] { (void)broker.acquire("k", times); }), "this broker was moved from");
    EXPECT_THROW(broker.acquire_async({"k"}, times, [](auto, auto) {}), ticketing::InvalidInput);
    EXPECT_THROW(broker.wait_ready(seconds(1)), ticketing::InvalidInput);
    EXPECT_THROW(broker.failure(), ticketing::InvalidInput);
    broker.close();
    ticketing::Operation operation = broker_.acquire_async({"l"}, times, [](auto, auto) {});
    const ticketing::Operation last = std::move(operation);
    operation.cancel();
    ticketing::Options options("127.0.0.1:1");
    const ticketing::Options taken = std::move(options);
    EXPECT_THROW(options.tls_insecure(), ticketing::InvalidInput);
    EXPECT_EQ(refusal([&] { ticketing::Broker nobody(options); }), "these options were moved from");
    // NOLINTEND(bugprone-use-after-move)
}

TEST_F(BrokerTest, CallbacksAndCancelling) {
    std::promise<std::unique_ptr<ticketing::Ticket>> granted;
    broker_.acquire_async({"k"}, times, [&](ticketing_status, std::unique_ptr<ticketing::Ticket> ticket) {
        granted.set_value(std::move(ticket));
    });
    const std::unique_ptr<ticketing::Ticket> ticket = granted.get_future().get();
    ASSERT_NE(ticket, nullptr);
    std::promise<ticketing_status> released;
    ticket->release_async([&](ticketing_status status) { released.set_value(status); });
    EXPECT_EQ(released.get_future().get(), TICKETING_OK);
    ticketing_status second = TICKETING_OK;
    ticket->release_async([&](ticketing_status status) { second = status; });
    EXPECT_EQ(second, TICKETING_NOT_HELD);

    server().acquire_answer = 0;
    std::promise<ticketing_status> cancelled;
    ticketing::Operation operation =
        broker_.acquire_async({"k"}, times, [&](ticketing_status status, std::unique_ptr<ticketing::Ticket>) {
            cancelled.set_value(status);
        });
    operation.cancel();
    EXPECT_EQ(cancelled.get_future().get(), TICKETING_ERROR_CANCELLED);
}

// What a child does with its parent's objects, their destructors included. Returns whether each call was refused.
bool refuses_the_child(ticketing::Broker broker, ticketing::Ticket ticket) {
    int refused = 0;
    const auto expect_closed = [&refused](const auto &call) {
        try {
            call();
        } catch (const ticketing::Closed &) {
            ++refused;
        }
    };
    expect_closed([&] { broker.wait_ready(seconds(5)); });
    expect_closed([&] { (void)broker.acquire("k", times); });
    expect_closed([&] { broker.acquire_async({"k"}, times, [](auto, auto) {}); });
    expect_closed([&] { ticket.release(); });
    broker.close();
    return refused == 4 && ticket.token() > 0;
}

TEST_F(BrokerTest, AForkedChildLeavesTheParentsObjectsAlone) {
    ticketing::Ticket ticket = broker_.acquire("k", times);
    const pid_t child = fork();
    if (child == 0) {
        // A call that hangs ends the child.
        alarm(20);
        _exit(refuses_the_child(std::move(broker_), std::move(ticket)) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(server().releases, 0);
    EXPECT_EQ(ticket.release(), ticketing::ReleaseOutcome::released);
}

TEST_F(BrokerTest, ClosedBrokersAndUnreachableOnes) {
    ticketing::Ticket ticket = broker_.acquire("k", times);
    broker_.close();
    EXPECT_THROW((void)broker_.acquire("k", times), ticketing::Closed);
    EXPECT_THROW(ticket.release(), ticketing::Closed);
    ticketing::Broker nobody(ticketing::Options("127.0.0.1:1"));
    EXPECT_THROW(nobody.wait_ready(milliseconds(50)), ticketing::NotConnected);
    try {
        (void)nobody.acquire("k", {seconds(1), seconds(30)});
        FAIL() << "nobody is there";
    } catch (const ticketing::NotConnected &failure) {
        EXPECT_STREQ(failure.what(), "no server was reachable: 127.0.0.1:1: connection refused");
    }
}

} // namespace
