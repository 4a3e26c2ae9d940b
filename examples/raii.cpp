// raii: a lease as a C++17 value. It renews itself while it lives, and gives the lease back when it goes out of scope.
//
//     raii STORE TARGET
//     c++ -std=c++17 raii.cpp $(pkg-config --cflags --libs tenure)
//
// It uses the public C API only. Take Client and Lease as they are, or as a start.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <tenure.h>

namespace tenure {

// What failed, with the library's own words; `code` is a TENURE_E...
class Error : public std::runtime_error {
  public:
    Error(int code, const char *message)
        : std::runtime_error(message && *message ? message : tenure_strerror(code)), code_(code) {
    }
    int code() const noexcept {
        return code_;
    }
    bool held() const noexcept {
        return code_ == TENURE_E_HELD;
    }

  private:
    int code_;
};

class Client {
  public:
    explicit Client(const std::string &url, std::chrono::milliseconds ttl = std::chrono::seconds(30)) {
        tenure_options options{};
        options.size = sizeof options;
        options.ttl_ms = static_cast<std::uint64_t>(ttl.count());
        tenure_client *opened = nullptr;
        if (int done = tenure_open(url.c_str(), &options, &opened); done < 0)
            throw Error(done, tenure_message(nullptr));
        client_.reset(opened);
    }
    tenure_client *get() const noexcept {
        return client_.get();
    }

  private:
    struct Close {
        void operator()(tenure_client *client) const noexcept {
            tenure_close(client);
        }
    };
    std::unique_ptr<tenure_client, Close> client_;
};

// Must not outlive its client. Not copied, not moved: a lease has one owner, and its thread refers to it.
class Lease {
  public:
    Lease(Client &client, const std::string &target, std::chrono::milliseconds wait = {}) {
        auto wait_ms = static_cast<std::uint64_t>(wait.count());
        if (int done = tenure_acquire(client.get(), target.c_str(), wait_ms, &lease_); done < 0)
            throw Error(done, tenure_message(client.get()));
        try {
            renewer_ = std::thread([this] { renew(); });
        } catch (...) {
            tenure_release(lease_);
            tenure_lease_free(lease_);
            throw;
        }
    }
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;

    // The work has stopped when this runs: that is what scope is for. What cannot be released ends by its TTL.
    ~Lease() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        renewer_.join();
        tenure_release(lease_);
        tenure_lease_free(lease_);
    }

    // A clock read. Ask before each step and before each message; it turns false by itself.
    explicit operator bool() const noexcept {
        return tenure_lease_valid(lease_);
    }
    std::uint64_t token() const noexcept {
        return tenure_lease_token(lease_);
    }
    // For loops that would rather throw than look.
    void check() const {
        if (!*this)
            throw Error(TENURE_E_LOST, nullptr);
    }

  private:
    // At a third of the TTL: two renewals may fail before the lease ends. No error is told here: operator bool tells.
    void renew() {
        const auto pause = std::chrono::milliseconds(tenure_lease_ttl_ms(lease_) / 3);
        std::unique_lock<std::mutex> lock(mutex_);
        while (!wake_.wait_for(lock, pause, [this] { return stopping_; })) {
            lock.unlock();
            const int done = tenure_renew(lease_);
            lock.lock();
            if (done == TENURE_E_LOST)
                return;
        }
    }

    tenure_lease *lease_ = nullptr;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;
    std::thread renewer_;
};

} // namespace tenure

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: raii STORE TARGET\n";
        return 2;
    }
    try {
        tenure::Client client(argv[1], std::chrono::milliseconds(600));
        tenure::Lease lease(client, argv[2]);
        // Longer than the TTL: the lease lives on renewals.
        for (int step = 1; step <= 5; step++) {
            lease.check();
            std::cout << "step " << step << " under token " << lease.token() << std::endl;
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
    } catch (const tenure::Error &error) {
        std::cerr << "raii: " << error.what() << "\n";
        return error.held() ? 4 : 1;
    }
    return 0;
}
