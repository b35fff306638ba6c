#include <cctype>
#include <cstdio>
#include <span>

#include <twinrail/twinrail.h>

using namespace std::chrono_literals;

struct Upper : twinrail::Handler {  // the server: answers each request in capitals
  void on_request(twinrail::Session& session, const twinrail::Request& request) override {
    std::string text(reinterpret_cast<const char*>(request.bytes.data()), request.bytes.size());
    for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    (void)session.reply(request.id, std::as_bytes(std::span(text)));
  }
};

int main() {
  auto context = twinrail::Context::create();
  auto engine = twinrail::Engine::create(*context);
  auto at = engine->listen("127.0.0.1:0", {}, [](auto&) { return std::make_shared<Upper>(); });
  auto session = engine->connect(*at, {});
  engine->run_until([&] { return session->info().rail == twinrail::Rail::shm; }, 5s);  // TCP would do as well
  bool done = false;
  (void)session->call(std::as_bytes(std::span("hello")), 1s, [&](const twinrail::CallResult& result) {
    std::printf("%.*s, over %s\n", static_cast<int>(result.reply.size()),
                reinterpret_cast<const char*>(result.reply.data()),
                std::string(to_string(session->info().rail)).c_str());
    done = true;
  });
  return engine->run_until([&] { return done; }, 5s) && engine->drain(5s) ? 0 : 1;
}
